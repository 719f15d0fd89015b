-- drain_worker: ask a worker that is alive to drain
-- in: worker text
-- out: id, told
-- why: its claims are refused from here on; it learns the rest from the answer to its next heartbeat, which the note brings on.
UPDATE tenure.workers AS w SET status = 'draining'
WHERE w.id = :worker
  AND w.status = 'alive'
RETURNING w.id, pg_notify(tenure.channel(), 'drain ' || w.id)
