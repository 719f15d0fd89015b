-- why: the facts behind one sentence: what a row is waiting for
-- in: id uuid
-- out: status, kind, queue, partition_key, attempts, max_attempts, claimed_by, seconds_left, seconds_to_wait, last_error, worker_status, cancel_asked, head uuid, head_status, workers int
SELECT i.status, i.kind, i.queue, i.partition_key, i.attempts, i.max_attempts, COALESCE(i.claimed_by, i.finished_by),
       extract(epoch FROM i.lease_expires_at - clock_timestamp())::float8,
       extract(epoch FROM i.available_at - clock_timestamp())::float8,
       i.last_error, w.status, i.cancel_asked, head.id, head.status,
       (SELECT count(*)::int FROM tenure.workers AS alive WHERE alive.status = 'alive')
FROM tenure.inbox AS i
LEFT JOIN tenure.workers AS w ON w.id = i.claimed_by
LEFT JOIN LATERAL (
  -- The row this one stands behind: the holder of its key, or an earlier row of it.
  SELECT ahead.id, ahead.status FROM tenure.inbox AS ahead
  WHERE i.ordered AND i.status = 'pending'
    AND ahead.id = COALESCE(
      (SELECT k.row_id FROM tenure.keys AS k WHERE k.queue = i.queue AND k.partition_key = i.partition_key),
      (SELECT r.id FROM tenure.live AS r
       WHERE r.ordered AND r.queue = i.queue AND tenure.bucket(r.partition_key) = i.partition_bucket AND r.partition_key = i.partition_key
       ORDER BY r.seq LIMIT 1))
    AND ahead.id <> i.id
) AS head ON true
WHERE i.id = :id
LIMIT 1
