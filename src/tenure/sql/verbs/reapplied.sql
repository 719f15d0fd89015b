-- reapplied: take an event off the list of skipped ones, in the transaction that has applied it after all
-- in: projection text, position bigint
-- out: n bigint
WITH gone AS (
  DELETE FROM tenure.skipped AS k
  WHERE k.projection = :projection
    AND k.position = :position::bigint
    AND k.again
  RETURNING k.position
)
SELECT count(*) FROM gone
