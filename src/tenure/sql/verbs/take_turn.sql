-- take_turn: the chores that are due, for the first worker that asks, and whether there is anything to do
-- in: worker text, from_until float8 (epoch seconds: what is listed before it is gone), chores text[] (those of applications that it knows)
-- out: name, anything (false: the chore is done, because it would find nothing)
-- why: one server-side call: a worker that is stopped right after it keeps nobody from the next turn. Not flushed: a turn
-- forgotten in a crash of the server is taken again. One that was taken at a time still to come was taken by another clock: then
-- keys that were found due by that clock are found anew. The looks are those of notice, sweep and due_schedules, in one statement:
-- an idle fleet sends nothing else.
WITH turn AS MATERIALIZED (
  SELECT pg_try_advisory_xact_lock(hashtextextended('tenure chores', 'tenure.chores'::regclass::oid::bigint)) AS mine,
         set_config('synchronous_commit', 'off', true)
), set_back AS MATERIALIZED (
  SELECT FROM turn JOIN tenure.chores AS c ON c.ran_at > clock_timestamp() + interval '1 second'  -- implied: a key that waits for a second is no harm
  WHERE turn.mine  -- implied: two who ask at once would look at the keys twice
  LIMIT 1
), keys_again AS (
  INSERT INTO tenure.arrivals (queue, partition_key, seq)
  SELECT h.queue, h.partition_key, h.from_seq FROM tenure.heads AS h
  WHERE EXISTS (SELECT FROM set_back)
    AND h.due_at > clock_timestamp() AND h.due_at < 'infinity'  -- implied: to look once too often is no harm
), limits_again AS (
  DELETE FROM tenure.limits_begun AS b WHERE EXISTS (SELECT FROM set_back)
), taken AS (
  UPDATE tenure.chores AS c SET ran_at = clock_timestamp(), ran_by = :worker
  FROM turn
  WHERE turn.mine  -- implied: only spares those who ask at once the wait for each other
    AND (c.ran_at < clock_timestamp() - c.every_seconds * interval '1 second'
         OR c.ran_at > clock_timestamp())
    AND (c.name !~ '[.:]' OR c.name = ANY (:chores::text[]))
  RETURNING c.name
)
SELECT t.name,
       CASE t.name
         WHEN 'fleet' THEN EXISTS (
           SELECT FROM tenure.workers AS w
           WHERE w.presence IS NOT NULL  -- implied: to look once too often is no harm
             AND (w.gone_at IS NOT NULL
                  OR w.presence <> ALL (ARRAY(SELECT tenure.presences()))))
         WHEN 'leases' THEN EXISTS (
           SELECT FROM tenure.claims AS c
           WHERE c.until >= tenure.since(:from_until)  -- implied: a floor only saves work
             AND c.until <= statement_timestamp())  -- implied: to look once too often is no harm
         WHEN 'schedules' THEN EXISTS (
           SELECT FROM tenure.schedules AS s
           WHERE s.next_at <= statement_timestamp()  -- implied: to look once too often is no harm
             AND NOT s.paused)  -- implied: to look once too often is no harm
         WHEN 'batches' THEN EXISTS (
           SELECT FROM tenure.groups AS g
           WHERE g.ended_at IS NOT NULL  -- implied: as below
             AND NOT g.told)  -- implied: to look once too often is no harm
         ELSE true
       END
FROM taken AS t
