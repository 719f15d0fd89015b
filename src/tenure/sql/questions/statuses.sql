-- statuses: how many rows match a filter in each state, counted up to cap - 1 and for so many seconds in each table
-- in: filter jsonb, cap int, seconds float8
-- out: state, n, more (at least so many)
SELECT c.state, c.n, c.more FROM tenure.state_counts(:filter::jsonb, :cap::int, :seconds::float8) AS c LIMIT 100
