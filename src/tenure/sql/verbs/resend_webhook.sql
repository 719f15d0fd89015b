-- resend_webhook: send webhooks that are kept to one endpoint again, under their own ids
-- in: endpoint_id uuid, ids uuid[], queue text
-- out: webhook_id, sent
SELECT m.id, tenure.deliver_to(m.id, ARRAY[e.id], :queue)
FROM tenure.endpoints AS e JOIN tenure.webhooks AS m ON m.tenant = e.tenant
WHERE e.id = :endpoint_id::uuid
  AND e.state <> 'disabled'
  AND m.id = ANY (:ids::uuid[])
ORDER BY m.id
