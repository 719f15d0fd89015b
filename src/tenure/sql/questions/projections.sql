-- projections: every shard of every projection, how far it is and how far behind
-- in: horizon bigint
-- out: projection, shard, shards, position, behind bigint, lag_seconds float8, state, paused, stopped_at, error, skipped bigint, updated_at
-- why: the lag in seconds is the age of the first event that it has not read; 0 if there is none.
SELECT c.projection, c.shard, p.shards, c.position, GREATEST(0, :horizon::bigint - c.position),
       COALESCE(date_part('epoch', clock_timestamp() - next.at), 0)::float8, c.state, p.paused, c.stopped_at, c.error,
       (SELECT count(*) FROM tenure.skipped AS k WHERE k.projection = c.projection AND k.shard = c.shard), c.updated_at
FROM tenure.checkpoints AS c JOIN tenure.projections AS p ON p.projection = c.projection
LEFT JOIN LATERAL (
  SELECT j.at FROM tenure.journal AS j
  WHERE j.position > c.position AND j.position <= :horizon::bigint
  ORDER BY j.position LIMIT 1) AS next ON true
ORDER BY c.projection, c.shard
LIMIT 10000
