-- stop_shard: say at which event a shard of a projection has stopped and why, if the lease is current
-- in: projection text, shard int, read_from bigint, position bigint, error text, id uuid, generation bigint, fence bigint
-- out: stopped boolean
WITH stopped AS (
  UPDATE tenure.checkpoints AS c
  SET state = 'stopped', stopped_at = :position::bigint, error = :error, updated_at = clock_timestamp()
  WHERE c.projection = :projection
    AND c.shard = :shard::int
    AND c.position = :read_from::bigint
    AND EXISTS (
      SELECT FROM tenure.live AS i
      WHERE i.id = :id
        AND i.status = 'processing'  -- implied: live_state, only a processing row has a lease
        AND i.lease_generation = :generation
        AND i.fence_token = :fence
        AND i.lease_expires_at > clock_timestamp())
  RETURNING c.shard
)
SELECT EXISTS (SELECT FROM stopped)
