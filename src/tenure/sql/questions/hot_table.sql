-- hot_table: size, dead versions and last vacuum of the hot table, by the statistics
-- in: (none)
-- out: live, dead, table_bytes, index_bytes, vacuumed_seconds (ago; NULL: never since the statistics began), enabled
SELECT s.n_live_tup, s.n_dead_tup, pg_table_size(s.relid), pg_indexes_size(s.relid),
       date_part('epoch', clock_timestamp() - GREATEST(s.last_autovacuum, s.last_vacuum)),
       NOT COALESCE(c.reloptions @> ARRAY['autovacuum_enabled=false'], false)
FROM pg_catalog.pg_stat_all_tables AS s
JOIN pg_catalog.pg_class AS c ON c.oid = s.relid
WHERE s.relid = 'tenure.live'::regclass
LIMIT 1
