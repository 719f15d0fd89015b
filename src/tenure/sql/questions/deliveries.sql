-- deliveries: the last calls of an endpoint, the newest first
-- in: endpoint_id uuid, n int
-- out: row_id, webhook_id, kind, attempt, fence_token, at, status, ms, address, note
SELECT d.row_id, d.webhook_id, m.kind, d.attempt, d.fence_token, d.at, d.status, d.ms, d.address, d.note
FROM tenure.deliveries AS d LEFT JOIN tenure.webhooks AS m ON m.id = d.webhook_id
WHERE d.endpoint_id = :endpoint_id::uuid
ORDER BY d.at DESC
LIMIT :n
