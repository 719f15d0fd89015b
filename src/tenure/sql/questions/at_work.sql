-- at_work: what the sessions that claim and settle are doing on the server now: cpu, wal, lock, other, resting or hidden
-- in: workers text[]
-- out: doing, n
-- why: asked many times, it tells where a live fleet's time goes. What other users' sessions do is open to pg_read_all_stats.
SELECT CASE WHEN a.state IS NULL THEN 'hidden'
            WHEN a.state <> 'active' OR a.wait_event_type = 'Client' THEN 'resting'
            WHEN a.wait_event_type IS NULL THEN 'cpu'
            WHEN a.wait_event_type = 'Lock' THEN 'lock'
            WHEN a.wait_event ILIKE 'wal%' OR a.wait_event = 'SyncRep' THEN 'wal'
            ELSE 'other' END AS doing,
       count(*)::int
FROM pg_catalog.pg_stat_activity AS a
WHERE a.datname = current_database()
  AND a.application_name = ANY (ARRAY(SELECT left(format('tenure %s %s', part, w), 63)
                                      FROM unnest(:workers::text[]) AS w, unnest(ARRAY['claimer', 'completer']) AS part))
GROUP BY 1
ORDER BY 1
LIMIT 10
