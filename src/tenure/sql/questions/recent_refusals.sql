-- recent_refusals: the last writes of any row that were refused because their lease was not the current one, the newest first
-- in: n int
-- out: row_id, at, worker, verb, kind, stale_token, current_token, reason
SELECT r.row_id, r.at, r.worker, r.verb, r.kind, r.stale_token, r.current_token, r.reason
FROM tenure.refusals AS r
ORDER BY r.id DESC
LIMIT :n
