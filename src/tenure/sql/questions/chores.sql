-- chores: what housekeeping does, how often, and how long ago it was last done
-- in: (none)
-- out: name, every_seconds, ran_seconds (ago; NULL: never), ran_by
SELECT c.name, c.every_seconds, CASE WHEN c.ran_at > '-infinity' THEN date_part('epoch', clock_timestamp() - LEAST(c.ran_at, clock_timestamp())) END, c.ran_by
FROM tenure.chores AS c
ORDER BY c.name
LIMIT 1000
