-- archive_days: whether today and the two coming days have their partition, how many rows stand in none (up to 1,001), how many days are kept, and how many locks the server has
-- in: (none)
-- out: day, made, stray, kept, locks
SELECT coming.day::text, EXISTS (
         SELECT FROM pg_catalog.pg_inherits AS h
         JOIN pg_catalog.pg_class AS c ON c.oid = h.inhrelid
         WHERE h.inhparent = 'tenure.archive'::regclass AND c.relname = 'archive_' || to_char(coming.day, 'YYYYMMDD')),
       (SELECT count(*)::int FROM (SELECT r.id FROM tenure.archive_rest AS r LIMIT 1001) AS astray),
       (SELECT count(*)::int FROM pg_catalog.pg_inherits AS h
        JOIN pg_catalog.pg_class AS c ON c.oid = h.inhrelid
        WHERE h.inhparent = 'tenure.archive'::regclass AND c.relname ~ '^archive_[0-9]{8}$'),
       current_setting('max_locks_per_transaction')::bigint
         * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint)
FROM (SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date + ahead.n AS day FROM generate_series(0, 2) AS ahead (n)) AS coming
ORDER BY coming.day
LIMIT 3
