-- live_workers: the workers that are alive and were seen within ttl seconds, in id order
-- in: ttl_seconds float8
-- out: id, status, last_seen_at, started_at, metadata
SELECT w.id, w.status, w.last_seen_at, w.started_at, w.metadata::text
FROM tenure.workers AS w
WHERE w.status = 'alive'
  AND w.last_seen_at > clock_timestamp() - :ttl_seconds * interval '1 second'
ORDER BY w.id
LIMIT 10000
