-- was_skipped: whether a projection has skipped an event before, by itself or by an operator
-- in: projection text, position bigint
-- out: skipped boolean
SELECT EXISTS (
  SELECT FROM tenure.skipped AS k
  WHERE k.projection = :projection
    AND k.position = :position::bigint)
