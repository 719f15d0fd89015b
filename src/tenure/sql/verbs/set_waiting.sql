-- set_waiting: set whether this worker sleeps, so that an enqueue wakes it
-- in: worker text, waiting boolean
-- out: status
-- why: not flushed: after a crash of the server no worker sleeps, and polling finds what a missed note would have told.
-- Every enqueue looks through this table. While a snapshot held elsewhere keeps its dead versions, a worker that works goes
-- on being woken: a note too many costs less than another version.
WITH said AS (
  UPDATE tenure.workers AS w SET waiting = :waiting
  FROM (SELECT set_config('synchronous_commit', 'off', true)) AS unflushed
  WHERE w.id = :worker
    AND w.waiting <> :waiting
    AND (:waiting OR pg_stat_get_dead_tuples('tenure.workers'::regclass) < 2000)
)
SELECT w.status FROM tenure.workers AS w WHERE w.id = :worker
