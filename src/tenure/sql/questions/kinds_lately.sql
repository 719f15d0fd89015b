-- kinds_lately: the kinds of the newest rows that have ended, the slowest first: how many ended badly, how long they ran
-- in: seconds int, looks int, n int
-- out: kind, ended, badly (failed rows and dead letters), run_p50, run_p95 (seconds), oldest uuid (looked at; NULL: all of these seconds were)
-- why: nobody counts by kind, so rows are looked at, the newest first, and no more than `looks` of each table. Where there are
-- more, only those are counted that are as young as the youngest end of both: else one table would reach further back than the other.
WITH completed AS MATERIALIZED (
  SELECT a.id, a.kind, date_part('epoch', a.completed_at - a.claimed_at) AS ran
  FROM tenure.archive AS a
  WHERE a.id >= tenure.id_at(statement_timestamp() - :seconds * interval '1 second')
  ORDER BY a.id DESC LIMIT :looks
), ended AS MATERIALIZED (
  SELECT d.id, d.kind, d.status, date_part('epoch', d.finished_at - d.claimed_at) AS ran
  FROM tenure.dead AS d
  WHERE d.id >= tenure.id_at(statement_timestamp() - :seconds * interval '1 second')
  ORDER BY d.id DESC LIMIT :looks
), reach AS MATERIALIZED (
  SELECT GREATEST(
    (SELECT CASE WHEN count(c.id) = :looks THEN min(c.id::text) END FROM completed AS c),
    (SELECT CASE WHEN count(e.id) = :looks THEN min(e.id::text) END FROM ended AS e))::uuid AS id
), looked AS (
  SELECT c.kind, false AS badly, c.ran, c.id FROM completed AS c
  UNION ALL
  SELECT e.kind, e.status IN ('failed', 'dead_letter'), e.ran, e.id FROM ended AS e
)
SELECT l.kind, count(l.id)::int, (count(l.id) FILTER (WHERE l.badly))::int,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY l.ran), percentile_cont(0.95) WITHIN GROUP (ORDER BY l.ran),
       (SELECT reach.id FROM reach)
FROM looked AS l
WHERE (SELECT reach.id FROM reach) IS NULL OR l.id >= (SELECT reach.id FROM reach)
GROUP BY l.kind
ORDER BY 5 DESC NULLS LAST, l.kind
LIMIT :n
