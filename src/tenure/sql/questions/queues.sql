-- queues: the settings of each queue that has some, and how much of each is used
-- in: (none)
-- out: queue, paused, max_running, max_per_key, rate_per_second, burst, running, tokens, updated_at, retention_seconds
SELECT q.queue, q.paused, q.max_running, q.max_per_key, q.rate_per_second, q.burst,
       (SELECT count(DISTINCT p.row_id)::int FROM tenure.permits AS p WHERE p.queue = q.queue),
       tenure.refilled(q.tokens, q.rate_per_second, q.burst, clock_timestamp() - q.refilled_at),
       q.updated_at, q.retention_seconds
FROM tenure.queues AS q
ORDER BY q.queue
LIMIT 10000
