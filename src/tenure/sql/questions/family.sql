-- family: the row that waits for the group of this one, and the rows that this one waits for, in the order in which they were sent
-- in: id uuid, n int, queues text[] (children of these alone; NULL: of all)
-- out: relation (parent, child), id, kind, queue, status, available_at (all NULL but the first two: the row is gone)
WITH related AS (
  SELECT 'parent' AS relation, g.then_row AS id, 0::bigint AS of_group, 0::bigint AS nth
  FROM (SELECT abs(i.counted) >> 6 AS id FROM tenure.inbox AS i WHERE i.id = :id LIMIT 1) AS mine
  JOIN tenure.groups AS g ON g.id = mine.id
  WHERE g.then_row IS NOT NULL
  UNION ALL
  (SELECT 'child', m.id, g.id, m.nth
   FROM tenure.groups AS g CROSS JOIN LATERAL unnest(g.members) WITH ORDINALITY AS m (id, nth)
   WHERE g.then_row = :id
     AND (:queues::text[] IS NULL
       OR EXISTS (SELECT FROM tenure.inbox AS seen WHERE seen.id = m.id AND seen.queue = ANY (:queues::text[])))
   ORDER BY g.id DESC, m.nth LIMIT :n::int)
)
SELECT r.relation, r.id, i.kind, i.queue, i.status, i.available_at
FROM related AS r
LEFT JOIN LATERAL (
  SELECT f.kind, f.queue, f.status, f.available_at FROM tenure.inbox AS f WHERE f.id = r.id LIMIT 1
) AS i ON true
ORDER BY r.relation DESC, r.of_group DESC, r.nth
LIMIT :n::int + 1
