-- standbys: how many servers follow this one, how many of them commits wait for, and what is set
-- in: (none)
-- out: streaming, synchronous, names, commit
-- why: whoever may not read the statistics of other users sees that a sender is there, not what it does: it is counted.
SELECT count(*) FILTER (WHERE COALESCE(r.state, 'streaming') IN ('streaming', 'catchup'))::int,
       count(*) FILTER (WHERE r.sync_state IN ('sync', 'quorum'))::int,
       current_setting('synchronous_standby_names'), current_setting('synchronous_commit')
FROM pg_catalog.pg_stat_replication AS r
LIMIT 1
