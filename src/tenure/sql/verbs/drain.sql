-- drain: let this worker claim nothing more; it leaves the ring and finishes what it holds
-- in: worker text
-- out: status
UPDATE tenure.workers SET status = 'draining', last_seen_at = clock_timestamp()
WHERE id = :worker
  AND status <> 'dead'
RETURNING status
