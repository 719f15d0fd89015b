-- projections: every shard of every projection, how far it is and how far behind; a rebuild is shard -1
-- in: (none)
-- out: projection, shard, shards, position, behind bigint, lag_seconds float8, state, paused, stopped_at, error, skipped bigint, updated_at, queue
-- why: counted up to the last event that is committed: what an open append holds back cannot be read yet, and is behind all the same. The
-- lag in seconds is the age of the first event that it has not read; 0 if there is none. Where the job fails, and not an event, the error
-- is that of its row, until it makes progress; a row that has ended is the state. A rebuild that has not begun has no checkpoint yet.
-- It runs while a worker has its row; else nobody can run it, or it waits, and the error says why if its row does.
WITH newest AS MATERIALIZED (
  SELECT j.position FROM tenure.journal AS j ORDER BY j.position DESC LIMIT 1
), shards AS (
  SELECT c.projection, c.shard, p.shards, c.position, c.state, p.paused, c.stopped_at, c.error, c.updated_at, p.queue,
         CASE WHEN c.shard < 0 THEN p.rebuild_id ELSE c.row_id END AS row_id
  FROM tenure.checkpoints AS c JOIN tenure.projections AS p ON p.projection = c.projection
  UNION ALL
  SELECT p.projection, -1, p.shards, 0, NULL, p.paused, NULL, NULL, NULL, p.queue, p.rebuild_id
  FROM tenure.projections AS p
  WHERE NOT EXISTS (SELECT FROM tenure.checkpoints AS c WHERE c.projection = p.projection AND c.shard = -1)
)
SELECT s.projection, s.shard, s.shards, s.position, GREATEST(0, COALESCE((SELECT n.position FROM newest AS n), 0) - s.position),
       COALESCE(date_part('epoch', clock_timestamp() - next.at), 0)::float8,
       CASE WHEN job.ended THEN job.status
            WHEN s.state = 'stopped' THEN s.state
            WHEN job.status IS NULL THEN 'no_row'
            WHEN job.held THEN 'running'
            WHEN NOT job.served THEN 'no_worker'
            ELSE 'waiting' END, s.paused, s.stopped_at,
       COALESCE(s.error, job.error),
       (SELECT count(*) FROM tenure.skipped AS k WHERE k.projection = s.projection AND k.shard = s.shard), COALESCE(s.updated_at, job.created_at),
       COALESCE(job.queue, s.queue)
FROM shards AS s
LEFT JOIN LATERAL (
  SELECT i.status, false AS ended, i.created_at, i.queue,
         CASE WHEN i.status = 'pending' AND EXISTS (SELECT FROM tenure.queues AS q WHERE q.queue = i.queue AND q.paused)
              THEN format('the queue %s is paused', quote_literal(i.queue))
              WHEN i.attempts > (i.status = 'processing')::int OR i.status = 'pending' AND i.available_at > clock_timestamp() THEN i.last_error
         END AS error,
         i.status = 'processing' AND i.lease_expires_at > clock_timestamp() AS held,
         EXISTS (SELECT FROM tenure.workers AS w
                 WHERE w.status <> 'dead' AND (w.presence IS NULL OR w.presence = ANY (ARRAY(SELECT tenure.presences())))
                   AND COALESCE(w.metadata -> 'kinds' ? i.kind, true)
                   AND COALESCE(w.metadata -> 'queues' ? i.queue, true)) AS served
  FROM tenure.live AS i WHERE i.id = s.row_id
  UNION ALL
  SELECT d.status, true, d.created_at, d.queue, d.last_error, false, false FROM tenure.dead AS d WHERE d.id = s.row_id
  LIMIT 1) AS job ON true
LEFT JOIN LATERAL (
  SELECT j.at FROM tenure.journal AS j
  WHERE j.position > s.position
  ORDER BY j.position LIMIT 1) AS next ON true
WHERE COALESCE(s.state, job.status) IS NOT NULL
ORDER BY s.projection, s.shard
LIMIT 10000
