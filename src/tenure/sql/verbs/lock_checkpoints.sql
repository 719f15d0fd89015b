-- lock_checkpoints: hold all shards of a projection where they are, and the furthest of them; give up soon if one is busy
-- in: projection text
-- out: position bigint, timeout
-- why: the projection first: who resumes, plans or forgets it takes it before the checkpoints, too.
WITH patience AS MATERIALIZED (
  SELECT set_config('lock_timeout', '3s', true) AS timeout
), first AS MATERIALIZED (
  SELECT p.projection FROM tenure.projections AS p, patience
  WHERE p.projection = :projection
  FOR UPDATE OF p
), locked AS MATERIALIZED (
  SELECT c.position FROM first JOIN tenure.checkpoints AS c ON c.projection = first.projection
  WHERE c.shard >= 0
  ORDER BY c.shard
  FOR UPDATE OF c
)
SELECT (SELECT max(locked.position) FROM locked), patience.timeout FROM patience
