-- set_waiting: set whether this worker sleeps, so that an enqueue wakes it
-- in: worker text, waiting boolean
-- out: status
-- why: not flushed: after a crash of the server no worker sleeps, and polling finds what a missed note would have told.
UPDATE tenure.workers AS w SET waiting = :waiting
FROM (SELECT set_config('synchronous_commit', 'off', true)) AS unflushed
WHERE w.id = :worker
RETURNING w.status
