-- rotate_secret: sign with another secret from now on, and with the one before too for a while; refused while a rotation is open
-- in: id uuid, secret text, overlap_seconds float8
-- out: until (NULL: refused, or no such endpoint)
-- why: a function: nobody may read a secret, not even to keep it.
SELECT r.until FROM tenure.rotate_secret(:id::uuid, :secret, :overlap_seconds::float8) AS r (until)
