-- refusals: the last writes of a row that were refused because their lease was not the current one, the oldest first
-- in: id uuid, n int
-- out: row_id, at, worker, verb, kind, stale_token, current_token, reason
SELECT r.row_id, r.at, r.worker, r.verb, r.kind, r.stale_token, r.current_token, r.reason
FROM tenure.refusals AS r
WHERE r.id = ANY (ARRAY(SELECT f.id FROM tenure.refusals AS f WHERE f.row_id = :id ORDER BY f.id DESC LIMIT :n))
ORDER BY r.at, r.id
LIMIT 10000
