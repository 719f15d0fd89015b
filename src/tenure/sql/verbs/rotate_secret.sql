-- rotate_secret: sign with another secret from now on, and with the one before too for a while; without a while with no other, at once
-- in: id uuid, secret text, overlap_seconds float8
-- out: until (NULL: refused, an overlap is open), open_until
-- why: a function: nobody may read a secret, not even to keep it.
SELECT r.until, r.open_until FROM tenure.rotate_secret(:id::uuid, :secret, :overlap_seconds::float8) AS r
