-- declare_limits: set the limits of a queue that code declares, unless an operator has set others
-- in: queue text, max_running int, max_per_key int, rate_per_second float8, burst int
-- out: what (set, same, kept)
SELECT told.what
FROM tenure.declare_limits(:queue::text, :max_running::int, :max_per_key::int, :rate_per_second::float8, :burst::int) AS told (what)
