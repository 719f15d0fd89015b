-- dead_share: how many dead and live row versions the hot table has, by the statistics
-- in: (none)
-- out: dead, live
SELECT COALESCE(pg_stat_get_dead_tuples('tenure.live'::regclass), 0), COALESCE(pg_stat_get_live_tuples('tenure.live'::regclass), 0)
