-- session: what a session does just now, and what it waits for; nothing if it has ended
SELECT a.state, a.wait_event FROM pg_catalog.pg_stat_activity AS a WHERE a.pid = %s
