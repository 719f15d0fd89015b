-- tell_batches: the batches that have ended and of which nobody was told yet; each is told once
-- in: n int
-- out: id, name, size, failed, cancelled, seconds float8 (from its begin to its end)
WITH untold AS (
  SELECT g.id FROM tenure.groups AS g
  WHERE g.ended_at IS NOT NULL
    AND NOT g.told
  ORDER BY g.id LIMIT :n FOR UPDATE SKIP LOCKED
)
UPDATE tenure.groups AS g SET told = true FROM untold WHERE g.id = untold.id
RETURNING g.id, COALESCE(g.name, ''), g.size, g.failed, g.cancelled, date_part('epoch', g.ended_at - g.opened_at)
