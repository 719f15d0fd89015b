-- queue_lags: how long the oldest row of each queue has been due and is still not claimed, in bounded time
-- in: (none)
-- out: queue, seconds
-- why: of ordered keys the first 256 of each queue are asked; oldest_runnable asks all, which takes as long as there are keys.
WITH waiting AS (
  SELECT l.queue, head.available_at AS since
  FROM tenure.lanes() AS l
  CROSS JOIN LATERAL (
    SELECT r.available_at FROM tenure.live AS r
    WHERE NOT r.ordered AND r.seq < 9223372036854775807 AND r.queue = l.queue AND r.priority = l.priority
      AND r.available_at <= statement_timestamp() AND r.status = 'pending'
    ORDER BY r.available_at LIMIT 1
  ) AS head
  UNION ALL
  SELECT o.queue, r.available_at
  FROM tenure.ordered_queues() AS o
  CROSS JOIN LATERAL tenure.free_heads(o.queue, 0, 256) AS head (id)
  JOIN tenure.live AS r ON r.id = head.id
)
SELECT w.queue, date_part('epoch', clock_timestamp() - GREATEST(min(w.since), 'epoch'))  -- by hand a row may have been due before all times
FROM waiting AS w
GROUP BY w.queue
ORDER BY w.queue
LIMIT 10000
