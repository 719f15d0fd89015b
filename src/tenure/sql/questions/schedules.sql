-- schedules: every schedule, by name
-- in: (none)
-- out: name, cron, zone, next_at, last_at, paused, misfire, kind, payload, tick_as, queue, partition_key, priority, max_attempts, ordered, created_at, updated_at
SELECT s.name, s.cron, s.zone, s.next_at, s.last_at, s.paused, s.misfire, s.kind, s.payload::text, s.tick_as, s.queue, s.partition_key,
       s.priority, s.max_attempts, s.ordered, s.created_at, s.updated_at
FROM tenure.schedules AS s
ORDER BY s.name
LIMIT 10000
