-- server_facts: what the server is and how it is set, as far as a queue depends on it
-- in: (none)
-- out: version, number, recovery, seconds, autovacuum, track_counts, fsync, full_page_writes, synchronous_commit, max_connections, reserved, connections, user_name, sees_all, public_open, read_only
-- why: connections are counted where everybody may; what other users' sessions do is open only to pg_read_all_stats.
SELECT current_setting('server_version'), current_setting('server_version_num')::int, pg_is_in_recovery(),
       date_part('epoch', clock_timestamp()), current_setting('autovacuum') = 'on', current_setting('track_counts') = 'on',
       current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'),
       current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int,
       (SELECT COALESCE(sum(d.numbackends), 0)::int FROM pg_catalog.pg_stat_database AS d),
       current_user::text, pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
       EXISTS (SELECT FROM pg_catalog.pg_namespace AS n, aclexplode(n.nspacl) AS a
               WHERE n.nspname = 'public' AND a.grantee = 0 AND a.privilege_type = 'CREATE'),
       current_setting('transaction_read_only') = 'on'
LIMIT 1
