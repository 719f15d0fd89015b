-- members: rows of a group that have not ended, or ended badly, in the order in which they were sent
-- in: id bigint, n int
-- out: id, status, kind, last_error
SELECT found.id, found.status, found.kind, found.last_error
FROM tenure.groups AS g
CROSS JOIN LATERAL unnest(g.members) WITH ORDINALITY AS m (id, nth)
CROSS JOIN LATERAL (
  SELECT i.id, i.status, i.kind, i.last_error FROM tenure.live AS i WHERE i.id = m.id
  UNION ALL
  SELECT d.id, d.status, d.kind, d.last_error FROM tenure.dead AS d WHERE d.id = m.id
) AS found
WHERE g.id = :id
ORDER BY m.nth
LIMIT :n::int
