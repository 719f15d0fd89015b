-- What doctor wants to know of every node: its clock, what it can prepare and has left prepared, and its inbox.
SELECT d.groupid, d.nodename || ':' || d.nodeport AS place, d.shouldhaveshards AS has_rows, f.success AS answers, f.result::jsonb AS facts,
       CASE WHEN m.success AND m.result <> '' THEN m.result::int END AS migration, statement_timestamp() AS here
FROM pg_catalog.pg_dist_node AS d
LEFT JOIN pg_catalog.run_command_on_all_nodes($q$
  SELECT jsonb_build_object('clock', extract(epoch FROM clock_timestamp()), 'can_prepare', current_setting('max_prepared_transactions')::int,
                            'left', (SELECT count(*) FROM pg_catalog.pg_prepared_xacts AS p
                                     WHERE p.database = current_database() AND p.prepared < clock_timestamp() - interval '1 minute'))
  $q$) AS f ON f.nodeid = d.nodeid
LEFT JOIN pg_catalog.run_command_on_all_nodes($q$SELECT max(m.version) FROM tenure.migrations AS m$q$) AS m ON m.nodeid = d.nodeid
WHERE d.isactive AND d.noderole = 'primary'
ORDER BY d.groupid
