-- take_turn: the chores that are due, for the first worker that asks
-- in: worker text
-- out: name
-- why: one server-side call: a worker that is stopped right after it keeps nobody from the next turn. Not flushed: a turn
-- forgotten in a crash of the server is taken again. One that was taken at a time still to come was taken by another clock.
WITH turn AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock(hashtextextended('tenure chores', 'tenure.chores'::regclass::oid::bigint)) AS mine,
         set_config('synchronous_commit', 'off', true)
)
UPDATE tenure.chores AS c SET ran_at = clock_timestamp(), ran_by = :worker
FROM turn
WHERE turn.mine  -- implied: only spares those who ask at once the wait for each other
  AND (c.ran_at < clock_timestamp() - c.every_seconds * interval '1 second'
       OR c.ran_at > clock_timestamp())
RETURNING c.name
