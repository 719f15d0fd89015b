-- dead_share: how many dead versions the hot table carries, and how many live ones, as the statistics know it
-- in: (none)
-- out: dead, live
SELECT COALESCE(pg_stat_get_dead_tuples('tenure.live'::regclass), 0), COALESCE(pg_stat_get_live_tuples('tenure.live'::regclass), 0)
