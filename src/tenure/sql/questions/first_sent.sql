-- first_sent: the idempotency key of a row, and since when it is used
-- in: id uuid
-- out: key, created_at
SELECT k.key, k.created_at
FROM tenure.inbox AS i
JOIN tenure.idempotency AS k ON k.key = i.idempotency_key
WHERE i.id = :id AND k.row_id = i.id
LIMIT 1
