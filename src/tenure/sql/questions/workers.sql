-- workers: every worker the registry knows, how long ago it was seen, and whether its session is there
-- in: n int
-- out: id, status, seen_seconds, up_seconds, present (NULL: it shows none, leases alone decide), metadata
SELECT w.id, w.status, date_part('epoch', clock_timestamp() - w.last_seen_at), date_part('epoch', clock_timestamp() - w.started_at),
       CASE WHEN w.presence IS NOT NULL THEN w.presence = ANY (ARRAY(SELECT tenure.presences())) END, w.metadata::text
FROM tenure.workers AS w
ORDER BY w.status = 'dead', w.id
LIMIT :n
