-- journal_facts: how far the journal can be read, who holds it back and for how long, and whether anybody may pass by the marks
-- in: (none)
-- out: horizon, last, pid, held_seconds, prepared boolean, cache bigint, open_partitions text[], retention_seconds, rest boolean
WITH lowest AS MATERIALIZED (
  SELECT m.mark, m.pid FROM tenure.marks() AS m ORDER BY m.mark LIMIT 1
)
SELECT h.horizon, tenure.last_position(), l.pid,
       CASE WHEN l.mark IS NOT NULL THEN date_part('epoch', clock_timestamp() - COALESCE(
         (SELECT a.xact_start FROM pg_catalog.pg_stat_activity AS a WHERE a.pid = l.pid),
         (SELECT min(p.prepared) FROM pg_catalog.pg_prepared_xacts AS p WHERE p.database = current_database()))) END,
       l.mark IS NOT NULL AND l.pid IS NULL,
       (SELECT s.seqcache FROM pg_catalog.pg_sequence AS s WHERE s.seqrelid = 'tenure.journal_position'::regclass),
       ARRAY(SELECT DISTINCT c.relname::text FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
             CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS a
             WHERE i.inhparent = 'tenure.journal'::regclass AND a.privilege_type = 'INSERT' AND a.grantee <> c.relowner ORDER BY 1),
       (SELECT k.retention_seconds FROM tenure.journal_kept AS k), EXISTS (SELECT FROM tenure.journal_rest)
FROM tenure.horizon() AS h (horizon) LEFT JOIN lowest AS l ON true
