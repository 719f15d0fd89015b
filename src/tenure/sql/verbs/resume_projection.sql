-- resume_projection: go on with a projection that was paused, and try again where a shard has stopped
-- in: projection text
-- out: n bigint
WITH resumed AS (
  UPDATE tenure.projections AS p SET paused = false
  WHERE p.projection = :projection
  RETURNING p.projection
), tried AS (
  UPDATE tenure.checkpoints AS c SET state = 'running', stopped_at = NULL
  WHERE c.projection = :projection
    AND c.state = 'stopped'  -- implied: the others run already
)
SELECT count(*) FROM resumed
