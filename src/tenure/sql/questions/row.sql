-- row: one row, in any status
-- in: id uuid
-- out: id, partition_key, partition_bucket, payload, status, attempts, max_attempts, claimed_by, claimed_at, lease_expires_at, lease_generation, available_at, completed_at, last_error, idempotency_key, created_at, kind, queue, priority, ordered, fence_token, cancel_asked, finished_at, finished_by, headers
SELECT i.id, i.partition_key, i.partition_bucket, i.payload::text, i.status, i.attempts, i.max_attempts, i.claimed_by, i.claimed_at,
       i.lease_expires_at, i.lease_generation, i.available_at, i.completed_at, i.last_error, i.idempotency_key, i.created_at,
       i.kind, i.queue, i.priority, i.ordered, i.fence_token, i.cancel_asked, i.finished_at, i.finished_by,
       i.headers::text
FROM tenure.inbox AS i
WHERE i.id = :id
LIMIT 1
