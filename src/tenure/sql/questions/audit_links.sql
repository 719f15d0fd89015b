-- audit_links: the chain of the audit after a link, in its order, each with its line
-- in: after bigint, n int
-- out: seq, line, ended, before, hash, id (NULL: the line is gone), at, done_at, actor, via, verb, target, reason, rows, database_user
SELECT l.seq, l.line, l.ended, l.before, l.hash, a.id, a.at, a.done_at, a.actor, a.via, a.verb, a.target, a.reason, a.rows, a.database_user
FROM tenure.audit_links AS l
LEFT JOIN tenure.audit AS a ON a.id = l.line
WHERE l.seq > :after::bigint
ORDER BY l.seq
LIMIT :n
