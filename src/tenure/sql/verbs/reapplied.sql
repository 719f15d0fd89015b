-- reapplied: take an event off the list of what a shard has skipped, in the transaction that has applied it after all
-- in: projection text, shard int, position bigint
-- out: n bigint
-- why: what a rebuild has skipped of the same event stays: it is of other tables, and is applied to them after the swap.
WITH gone AS (
  DELETE FROM tenure.skipped AS k
  WHERE k.projection = :projection
    AND k.shard = :shard::int
    AND k.position = :position::bigint
    AND k.again
  RETURNING k.position
)
SELECT count(*) FROM gone
