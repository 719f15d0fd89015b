-- appear: hold this worker's presence on this session, and say so in the registry
-- in: worker text
-- out: status
-- why: shared, so that a worker that reconnects need not wait for the server to notice that its old session is dead.
WITH here AS MATERIALIZED (
  SELECT pg_try_advisory_lock_shared(tenure.presence_key(:worker)) AS held
)
UPDATE tenure.workers AS w SET presence = tenure.presence_key(w.id), gone_at = NULL
FROM here
WHERE w.id = :worker
  AND w.status <> 'dead'
  AND here.held  -- implied: nobody holds it otherwise than shared
RETURNING w.status
