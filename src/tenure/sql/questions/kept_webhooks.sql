-- kept_webhooks: the ids of a tenant's webhooks that an endpoint wants, sent since a time, the oldest first
-- in: endpoint_id uuid, since timestamptz, n int
-- out: id
SELECT m.id
FROM tenure.endpoints AS e JOIN tenure.webhooks AS m ON m.tenant = e.tenant
WHERE e.id = :endpoint_id::uuid
  AND m.id >= tenure.id_at(:since::timestamptz)
  AND EXISTS (SELECT FROM unnest(e.kinds) AS k (word) WHERE k.word = m.kind OR (right(k.word, 1) = '*' AND starts_with(m.kind, left(k.word, -1))))
ORDER BY m.id
LIMIT :n
