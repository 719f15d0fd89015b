-- pause_projection: apply no more events to a projection until it is resumed
-- in: projection text
-- out: n bigint
WITH paused AS (
  UPDATE tenure.projections AS p SET paused = true
  WHERE p.projection = :projection
  RETURNING p.projection
)
SELECT count(*) FROM paused
