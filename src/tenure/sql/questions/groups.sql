-- groups: the latest groups of rows, and how they stand
-- in: n int, before bigint (a number)
-- out: id, name, size, open int, failed int, cancelled int, opened_at, ended_at, then_row, then_group, failing
SELECT g.id, g.name, g.size, COALESCE(s.open, 0)::int AS open, COALESCE(s.failed, g.failed)::int AS failed,
       COALESCE(s.cancelled, g.cancelled)::int AS cancelled, g.opened_at, g.ended_at, g.then_row, g.then_group, g.failing
FROM tenure.groups AS g
LEFT JOIN LATERAL (
  SELECT sum(s.open) AS open, sum(s.failed) AS failed, sum(s.cancelled) AS cancelled FROM tenure.group_slots AS s WHERE s.group_id = g.id
) AS s ON true
WHERE g.id < :before::bigint
ORDER BY g.id DESC
LIMIT :n::int
