-- redrive: bring failed and dead_letter rows back to pending with fresh attempts
-- in: ids uuid[]
-- out: id, woken
-- why: lease_generation and fence_token stay as they were: starting them over would hand out tokens that were in use before.
-- A row of a group is counted again while the group is open; if it has ended, the row runs uncounted. A second redrive of the same row finds nothing to do.
-- A flow tries again what failed, goes on undoing where it stopped, or, if it was undone completely, begins its next run.
WITH raised AS (
  DELETE FROM tenure.dead AS d
  WHERE d.id = ANY (:ids::uuid[])
    AND d.status IN ('failed', 'dead_letter')
  RETURNING d.id, d.seq, d.created_at, d.lease_generation, d.fence_token, d.max_attempts, d.priority, d.ordered, d.hold, d.kind,
            d.queue, d.partition_key, d.idempotency_key, d.payload, d.last_error, d.headers, d.counted
), back AS (
  INSERT INTO tenure.live (id, seq, created_at, lease_generation, fence_token, max_attempts, priority, ordered, hold, kind,
                           queue, partition_key, idempotency_key, payload, last_error, headers, counted)
  OVERRIDING SYSTEM VALUE
  SELECT id, seq, created_at, lease_generation, fence_token, max_attempts, priority, ordered, hold, kind,
         queue, partition_key, idempotency_key, payload, last_error,
         CASE WHEN headers ? 'tenure-flow' THEN tenure.reopen(id, headers) ELSE headers END, tenure.count_again(counted)
  FROM raised
  ORDER BY raised.counted  -- slots are locked in order
), told AS MATERIALIZED (
  SELECT tenure.rouse(array_agg(raised.queue), array_agg(tenure.bucket(COALESCE(raised.partition_key, raised.id::text)))) AS woken
  FROM raised
)
SELECT raised.id, told.woken FROM raised CROSS JOIN told
