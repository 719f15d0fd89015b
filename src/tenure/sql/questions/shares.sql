-- shares: the limits over several inboxes that are in force here, the share of this one, and how much of it is used
-- in: (none)
-- out: queue, said, dealt, inboxes, all_running, all_rate, all_burst, max_running, rate_per_second, burst, raised, running
SELECT s.queue, s.said, s.dealt, s.inboxes, s.all_running, s.all_rate, s.all_burst, s.max_running, s.rate_per_second, s.burst,
       (s.max_running, s.rate_per_second, s.burst) IS NOT DISTINCT FROM (q.max_running, q.rate_per_second, q.burst),
       (SELECT count(*)::int FROM tenure.permits AS p WHERE p.queue = s.queue AND p.partition_key = '')
FROM tenure.shares AS s JOIN tenure.queues AS q ON q.queue = s.queue
WHERE (s.was_running, s.was_rate, s.was_burst) IS NOT DISTINCT FROM (q.max_running, q.rate_per_second, q.burst)
ORDER BY s.queue
LIMIT 10000
