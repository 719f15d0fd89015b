-- lost_members: open groups that wait for rows which are gone: deleted in the table itself, so nobody counted them
-- in: n int (groups), rows bigint (of all of them, at most), marks int (of one group)
-- out: id (NULL if there is none), lost int, marks bigint[] (the `counted` of rows that are gone), looked_at int, more boolean (groups were left out)
WITH open AS MATERIALIZED (
  SELECT g.id, g.size, sum(g.size) OVER (ORDER BY g.id) AS so_far, row_number() OVER (ORDER BY g.id) AS place
  FROM (SELECT o.id, o.size FROM tenure.groups AS o WHERE o.ended_at IS NULL ORDER BY o.id LIMIT :n::int + 1) AS g
),
looked_at AS MATERIALIZED (
  SELECT g.id, g.members FROM open AS o JOIN tenure.groups AS g ON g.id = o.id WHERE o.place <= :n::int AND o.so_far - o.size < :rows::bigint
),
there AS MATERIALIZED (
  SELECT i.counted, count(*) AS n
  FROM looked_at AS g
  CROSS JOIN LATERAL unnest(g.members) AS m (id)
  CROSS JOIN LATERAL (SELECT l.counted FROM tenure.live AS l WHERE l.id = m.id AND l.counted > 0) AS i
  GROUP BY i.counted
),
lost AS MATERIALIZED (
  SELECT s.group_id AS id, s.group_id << 6 | s.slot AS mark, s.open - COALESCE(t.n, 0) AS n
  FROM looked_at AS g
  JOIN tenure.group_slots AS s ON s.group_id = g.id
  LEFT JOIN there AS t ON t.counted = (s.group_id << 6 | s.slot)
  WHERE s.open > COALESCE(t.n, 0)
)
SELECT l.id, sum(l.n)::int AS lost,
       (ARRAY(SELECT m.mark FROM lost AS m CROSS JOIN LATERAL generate_series(1, m.n) WHERE m.id = l.id ORDER BY m.mark LIMIT :marks::int)) AS marks,
       s.n AS looked_at, s.n < s.open AS more
FROM (SELECT (SELECT count(*)::int FROM looked_at) AS n, (SELECT count(*) FROM open) AS open) AS s
LEFT JOIN lost AS l ON true
GROUP BY l.id, s.n, s.open
ORDER BY l.id
