-- publisher: which inbox this is, so that a broker can tell it from others: it stays through a failover, and a copy is another
-- in: (none)
-- out: inbox (of a cluster all are one: a key moves between them, and its fences rise)
SELECT CASE WHEN to_regclass('tenure.ranges') IS NULL
            THEN concat_ws(':', i.system_identifier, d.oid, i.table_oid)
            ELSE 'cluster:' || d.datname END
FROM tenure.incarnation AS i, pg_database AS d
WHERE d.datname = current_database()
