-- revoke_token: let nobody in by this token from now on
-- in: name text
-- out: id (none: there is no such token, or it was revoked before)
UPDATE tenure.tokens AS t
SET revoked_at = clock_timestamp()
WHERE t.name = :name
  AND t.revoked_at IS NULL
RETURNING t.id
