-- effects: the effects that the handler of a row has done and will not do again
-- in: id uuid
-- out: effect, fence_token, done_at
SELECT e.effect, e.fence_token, e.done_at FROM tenure.effects AS e WHERE e.row_id = :id ORDER BY e.done_at, e.effect LIMIT 1000
