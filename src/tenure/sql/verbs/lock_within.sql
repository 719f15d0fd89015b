-- lock_within: wait no longer than so long for any lock, until this transaction ends
-- in: seconds float8
-- out: milliseconds
SELECT set_config('lock_timeout', ceil(1000 * :seconds::float8)::int::text, true)
