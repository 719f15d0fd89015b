-- tape: who held the row, under which token, from when to when, and how it ended
-- in: id uuid
-- out: lease_generation, fence_token, worker, claimed_at, ended_at, outcome, error
-- why: attempts that did not complete are rows of their own; the current or completed one is the row itself.
SELECT t.lease_generation, t.fence_token, t.worker, t.claimed_at, t.ended_at, t.outcome, t.error
FROM tenure.attempts AS t
WHERE t.row_id = :id
UNION ALL
SELECT i.lease_generation, i.fence_token, COALESCE(i.claimed_by, i.finished_by), i.claimed_at, i.finished_at, i.status, NULL
FROM tenure.inbox AS i
WHERE i.id = :id
  AND i.status IN ('processing', 'completed')
ORDER BY 2
LIMIT 10000
