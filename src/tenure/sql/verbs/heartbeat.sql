-- heartbeat: say that this worker is alive
-- in: worker text, metadata text (JSON)
-- out: status
-- why: never changes the status: a draining worker stays draining, and one declared dead must register under a new id.
UPDATE tenure.workers
SET last_seen_at = clock_timestamp(), metadata = metadata || :metadata::jsonb
WHERE id = :worker
  AND status <> 'dead'
RETURNING status
