-- tokens: every token for the web, the newest first; never its secret
-- in: (none)
-- out: id, name, role, queues (NULL: all), reveal, created_at, created_by, expires_at, revoked_at, last_used_at, status
SELECT t.id, t.name, t.role, t.queues, t.reveal, t.created_at, t.created_by, t.expires_at, t.revoked_at, t.last_used_at,
       CASE WHEN t.revoked_at IS NOT NULL THEN 'revoked' WHEN t.expires_at <= clock_timestamp() THEN 'expired' ELSE 'valid' END
FROM tenure.tokens AS t
ORDER BY t.created_at DESC, t.id
