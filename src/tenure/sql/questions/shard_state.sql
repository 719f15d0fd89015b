-- shard_state: how far a shard of a projection is, and what somebody has asked of it
-- in: projection text, shard int
-- out: position, state, paused, shards, like_types, on_error, again boolean
SELECT c.position, c.state, p.paused, p.shards, p.like_types, p.on_error,
       EXISTS (SELECT FROM tenure.skipped AS k WHERE k.projection = c.projection AND k.shard = c.shard AND k.again)
FROM tenure.checkpoints AS c JOIN tenure.projections AS p ON p.projection = c.projection
WHERE c.projection = :projection
  AND c.shard = :shard::int
