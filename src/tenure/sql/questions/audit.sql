-- audit: what operators did, the latest first
-- in: before bigint (NULL: from the latest on), n int
-- out: id, at, done_at, actor, via, verb, target, reason, rows, database_user
SELECT a.id, a.at, a.done_at, a.actor, a.via, a.verb, a.target, a.reason, a.rows, a.database_user
FROM tenure.audit AS a
WHERE :before::bigint IS NULL OR a.id < :before::bigint
ORDER BY a.id DESC
LIMIT :n
