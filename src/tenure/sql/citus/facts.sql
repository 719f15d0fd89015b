-- What doctor wants to know of every node: its clock, what it can prepare and has left prepared, its inbox, and what waits there for its range.
SELECT d.groupid, d.nodename || ':' || d.nodeport AS place, d.shouldhaveshards AS has_rows, f.success AS answers,
       CASE WHEN f.success AND f.result <> '' THEN f.result::jsonb END AS facts,
       CASE WHEN m.success AND m.result <> '' THEN m.result::int END AS migration, statement_timestamp() AS here,
       CASE WHEN w.success AND w.result <> '' THEN w.result::jsonb END AS waiting
FROM pg_catalog.pg_dist_node AS d
LEFT JOIN pg_catalog.run_command_on_all_nodes($q$
  SELECT jsonb_build_object('clock', extract(epoch FROM clock_timestamp()), 'can_prepare', current_setting('max_prepared_transactions')::int,
                            'left', (SELECT count(*) FROM pg_catalog.pg_prepared_xacts AS p
                                     WHERE p.database = current_database()
                                       AND p.prepared < GREATEST(pg_postmaster_start_time(), clock_timestamp() - interval '1 minute')),
                            'closed', (SELECT bool_or(NOT has_schema_privilege(n.oid, 'USAGE') OR NOT has_table_privilege(c.oid, 'SELECT'))
                                       FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
                                       WHERE n.nspname = :'named' AND c.relname IN ('migrations', 'waiting', 'live')))
  $q$) AS f ON f.nodeid = d.nodeid
LEFT JOIN pg_catalog.run_command_on_all_nodes($q$SELECT max(m.version) FROM tenure.migrations AS m$q$) AS m ON m.nodeid = d.nodeid
LEFT JOIN pg_catalog.run_command_on_all_nodes($q$
  SELECT jsonb_build_object('rows', count(*), 'ranges', count(DISTINCT tenure_door.range_of(k.partition_key)),
                            'seconds', extract(epoch FROM clock_timestamp() - min(k.since)),
                            'reason', (SELECT i.last_error FROM tenure.waiting AS f JOIN tenure.live AS i ON i.id = f.row_id ORDER BY f.since LIMIT 1))
  FROM tenure.waiting AS k
  $q$) AS w ON w.nodeid = d.nodeid
WHERE d.isactive AND d.noderole = 'primary'
ORDER BY d.groupid
