-- lock_checkpoints: hold all shards of a projection where they are, and the furthest of them; give up soon if one is busy
-- in: projection text
-- out: position bigint, timeout
WITH patience AS MATERIALIZED (
  SELECT set_config('lock_timeout', '3s', true) AS timeout
), locked AS MATERIALIZED (
  SELECT c.position FROM tenure.checkpoints AS c, patience
  WHERE c.projection = :projection
    AND c.shard >= 0
  ORDER BY c.shard
  FOR UPDATE OF c
)
SELECT (SELECT max(locked.position) FROM locked), patience.timeout FROM patience
