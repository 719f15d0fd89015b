-- wake: make parked rows due now
-- in: ids uuid[]
-- out: id, woken
-- why: unlike retry_now it waits for a row that is locked: who parks it just now must not miss it.
WITH asleep AS (
  SELECT i.id FROM tenure.live AS i
  WHERE i.id = ANY (:ids::uuid[])
    AND i.status = 'pending'  -- implied: what is held was due when it was claimed
    AND i.available_at > clock_timestamp()
  ORDER BY i.id
  FOR NO KEY UPDATE
), due AS (
  UPDATE tenure.live AS i SET available_at = clock_timestamp() FROM asleep
  WHERE i.id = asleep.id
  RETURNING i.id, i.queue, tenure.bucket(COALESCE(i.partition_key, i.id::text)) AS bucket
), told AS MATERIALIZED (
  SELECT tenure.rouse(array_agg(due.queue), array_agg(due.bucket)) AS woken FROM due
)
SELECT due.id, told.woken FROM due CROSS JOIN told
