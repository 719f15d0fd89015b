-- resume: let a paused queue start rows again
-- in: queue text
-- out: queue, told (nothing at all if it was not paused)
WITH changed AS (
  UPDATE tenure.queues SET paused = false, updated_at = clock_timestamp()
  WHERE queue = :queue
    AND paused
  RETURNING queue
)
SELECT changed.queue, pg_notify(tenure.channel(), 'queues') FROM changed
