-- transactions: what keeps dead versions of rows alive, or stands idle in a transaction: sessions, slots, prepared transactions
-- in: n int
-- out: what (session, slot, prepared), name, pid, state, open_seconds, idle_seconds, held_xids, query
-- why: vacuum takes no version that the oldest of these might still read, however long it has been dead. Vacuums are none of them.
WITH open AS (
  SELECT 'session' AS what, COALESCE(a.application_name, '') || ' of ' || COALESCE(a.usename::text, '?') AS name, a.pid, a.state,
         date_part('epoch', clock_timestamp() - a.xact_start) AS open_seconds,
         CASE WHEN a.state LIKE 'idle in transaction%' THEN date_part('epoch', clock_timestamp() - a.state_change) END AS idle_seconds,
         GREATEST(age(a.backend_xmin), age(a.backend_xid)) AS held_xids, left(a.query, 100) AS query
  FROM pg_catalog.pg_stat_activity AS a
  WHERE (a.xact_start IS NOT NULL OR a.backend_xmin IS NOT NULL)
    AND (a.datname = current_database() OR a.datname IS NULL)
    AND a.backend_type <> 'autovacuum worker'
    AND a.pid <> pg_backend_pid()
  UNION ALL
  SELECT 'slot', s.slot_name::text, s.active_pid, CASE WHEN s.active THEN 'active' ELSE 'inactive' END, NULL, NULL, age(s.xmin), NULL
  FROM pg_catalog.pg_replication_slots AS s
  WHERE s.xmin IS NOT NULL
  UNION ALL
  SELECT 'prepared', p.gid, NULL, 'prepared', date_part('epoch', clock_timestamp() - p.prepared), NULL, age(p.transaction), NULL
  FROM pg_catalog.pg_prepared_xacts AS p
  WHERE p.database = current_database()
)
SELECT o.what, o.name, o.pid, o.state, o.open_seconds, o.idle_seconds, o.held_xids, o.query
FROM open AS o
ORDER BY o.held_xids DESC NULLS LAST, o.open_seconds DESC NULLS LAST
LIMIT :n
