-- advance: move a checkpoint in the transaction of what was applied, if it is where the holder read from and the lease is current
-- in: projection text, shard int, read_from bigint, read_to bigint, shards int, id uuid, generation bigint, fence bigint
-- out: held boolean, moved boolean, within (NULL or empty: no longer the transaction that was entered)
-- why: the position alone makes it exactly once: of two holders who read from the same one, the second to write finds another. The
-- lease says who was late. What has moved has not failed in vain: its attempts begin anew. If a rebuild has dealt the streams among
-- another number of shards, what was read is not the shard's own; the checkpoint is locked since before, so none can meanwhile.
WITH holder AS (
  SELECT i.id, i.attempts
  FROM tenure.live AS i
  WHERE i.id = :id
    AND i.status = 'processing'  -- implied: live_state, only a processing row has a lease
    AND i.lease_generation = :generation
    AND i.fence_token = :fence
    AND i.lease_expires_at > clock_timestamp()
), moved AS (
  UPDATE tenure.checkpoints AS c
  SET position = :read_to::bigint, fence_token = :fence, updated_at = clock_timestamp(), state = 'running', stopped_at = NULL, error = NULL
  FROM holder
  WHERE c.projection = :projection
    AND c.shard = :shard::int
    AND c.position = :read_from::bigint
    AND (:shards::int IS NULL OR :shards::int = (SELECT p.shards FROM tenure.projections AS p WHERE p.projection = :projection))
    AND c.fence_token <= :fence
  RETURNING c.position
), fresh AS (
  UPDATE tenure.live AS i SET attempts = 1
  FROM holder, moved
  WHERE i.id = holder.id
    AND holder.attempts > 1  -- implied: only spares the others the write
)
SELECT EXISTS (SELECT FROM holder), EXISTS (SELECT FROM moved), current_setting('tenure_tx.within', true)
