-- reapply: ask for events that a projection has skipped to be applied after all: all of them, or one
-- in: projection text, position bigint
-- out: n bigint
WITH asked AS (
  UPDATE tenure.skipped AS k SET again = true
  WHERE k.projection = :projection
    AND (:position::bigint IS NULL OR k.position = :position::bigint)
  RETURNING k.position
)
SELECT count(DISTINCT a.position) FROM asked AS a
