-- lock_within: until this transaction ends, wait at most this long for any lock
-- in: seconds float8
-- out: milliseconds
SELECT set_config('lock_timeout', ceil(1000 * :seconds::float8)::int::text, true)
