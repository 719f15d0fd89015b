-- workers: every worker the registry knows, how long ago it was seen, and whether its session is there
-- in: n int
-- out: id, status, seen_seconds, up_seconds, present (NULL: it shows none, leases alone decide), metadata
SELECT w.id, w.status,  -- by hand any time may stand there, infinity too
       LEAST(GREATEST(date_part('epoch', clock_timestamp()) - date_part('epoch', w.last_seen_at), -1e12), 1e12),
       LEAST(GREATEST(date_part('epoch', clock_timestamp()) - date_part('epoch', w.started_at), -1e12), 1e12),
       CASE WHEN w.presence IS NOT NULL THEN w.presence = ANY (ARRAY(SELECT tenure.presences())) END, w.metadata::text
FROM tenure.workers AS w
ORDER BY w.status = 'dead', w.id
LIMIT :n
