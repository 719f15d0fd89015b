-- oldest_runnable: how long the oldest row of each queue has been due and is still not claimed, in seconds
-- in: (none)
-- out: queue, seconds
-- why: lag is the age of what could run now. A row scheduled for next week has none.
WITH unordered AS (
  SELECT l.queue, min(head.available_at) AS since
  FROM tenure.lanes() AS l
  CROSS JOIN LATERAL (
    SELECT r.available_at FROM tenure.live AS r
    WHERE NOT r.ordered AND r.seq < 9223372036854775807 AND r.queue = l.queue AND r.priority = l.priority
      AND r.available_at <= statement_timestamp() AND r.status = 'pending'
    ORDER BY r.available_at LIMIT 1
  ) AS head
  GROUP BY l.queue
), ordered AS (
  SELECT r.queue, min(r.available_at) AS since
  FROM tenure.live AS r
  WHERE r.ordered AND r.status = 'pending' AND r.available_at <= statement_timestamp()
    AND NOT EXISTS (SELECT FROM tenure.dead AS d WHERE d.queue = r.queue AND d.partition_key = r.partition_key AND d.blocks)
    AND NOT EXISTS (SELECT FROM tenure.live AS earlier
                    WHERE earlier.ordered AND earlier.queue = r.queue
                      AND tenure.bucket(earlier.partition_key) = tenure.bucket(r.partition_key)
                      AND earlier.partition_key = r.partition_key AND earlier.seq < r.seq)
  GROUP BY r.queue
)
SELECT u.queue, extract(epoch FROM clock_timestamp() - GREATEST(min(u.since), 'epoch'))::float8  -- by hand a row may have been due before all times
FROM (SELECT queue, since FROM unordered UNION ALL SELECT queue, since FROM ordered) AS u
GROUP BY u.queue
ORDER BY u.queue
LIMIT 1000
