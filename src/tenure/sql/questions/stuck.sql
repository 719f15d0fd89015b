-- stuck: rows whose lease is over and that no sweep has ended yet
-- in: n int
-- out: id, partition_key, claimed_by, lease_expires_at, attempts, last_error
SELECT i.id, i.partition_key, i.claimed_by, i.lease_expires_at, i.attempts, i.last_error
FROM tenure.inbox AS i
WHERE i.status = 'processing'
  AND i.lease_expires_at < clock_timestamp()
ORDER BY i.lease_expires_at
LIMIT :n
