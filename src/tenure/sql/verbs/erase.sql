-- erase: delete rows that nobody holds, with all that is known of them: tape, refusals, effects, results, steps, calls, idempotency key and key
-- in: ids uuid[]
-- out: id, woken
-- why: unlike delete, the idempotency key goes too: it may name a person, and so may its hash. A late duplicate of an erased row
-- is a new row. A locked row is skipped: it is being claimed, redriven or deleted right now. Which keys have no row left is asked in
-- the function, when the rows are gone: a statement sees only what was before.
WITH waiting AS (
  DELETE FROM tenure.live AS i
  WHERE i.id = ANY (ARRAY(
    SELECT p.id FROM tenure.live AS p
    WHERE p.id = ANY (:ids::uuid[])
      AND p.status = 'pending'
    ORDER BY p.id
    FOR UPDATE SKIP LOCKED))
  RETURNING i.id, i.seq, i.ordered, i.queue, i.partition_key, i.idempotency_key, i.counted
), buried AS (
  DELETE FROM tenure.dead AS d
  WHERE d.id = ANY (ARRAY(
    SELECT p.id FROM tenure.dead AS p
    WHERE p.id = ANY (:ids::uuid[])
    ORDER BY p.id
    FOR UPDATE SKIP LOCKED))
  RETURNING d.id, d.seq, d.ordered, d.queue, d.partition_key, d.idempotency_key
), kept AS (
  DELETE FROM tenure.archive AS a
  WHERE a.id = ANY (ARRAY(
    SELECT p.id FROM tenure.archive AS p
    WHERE p.id = ANY (:ids::uuid[])
    ORDER BY p.id
    FOR UPDATE SKIP LOCKED))
  RETURNING a.id, a.queue, a.partition_key, a.idempotency_key
), gone AS (
  SELECT id, seq, ordered, queue, partition_key, idempotency_key FROM waiting
  UNION ALL
  SELECT id, seq, ordered, queue, partition_key, idempotency_key FROM buried
  UNION ALL
  SELECT id, NULL, false, queue, partition_key, idempotency_key FROM kept
), forgotten AS MATERIALIZED (
  SELECT tenure.forget_keys(array_agg(gone.queue), array_agg(gone.partition_key),
                            array_agg(CASE WHEN gone.ordered THEN gone.seq END)) FROM gone
), counted AS MATERIALIZED (
  -- A row that is deleted before it ran ends as if it were cancelled; those that had ended were counted then.
  SELECT tenure.count_ends(array_agg(waiting.counted), array_agg('cancelled'::text)) AS groups FROM waiting
  WHERE waiting.counted > 0  -- implied: count_ends passes the others by
), tape AS (
  DELETE FROM tenure.attempts AS t USING gone
  WHERE t.row_id = gone.id
), refused AS (
  DELETE FROM tenure.refusals AS r USING gone
  WHERE r.row_id = gone.id
), valued AS (
  DELETE FROM tenure.results AS r USING gone
  WHERE r.row_id = gone.id
), noted AS (
  DELETE FROM tenure.progress AS p USING gone
  WHERE p.row_id = gone.id
), marks AS (
  DELETE FROM tenure.effects AS e USING gone
  WHERE e.row_id = gone.id
), steps AS (
  DELETE FROM tenure.steps AS s USING gone
  WHERE s.row_id = gone.id
), signals AS (
  DELETE FROM tenure.signals AS g USING gone
  WHERE g.row_id = gone.id
), once AS (
  DELETE FROM tenure.signals_once AS o USING gone
  WHERE o.row_id = gone.id
), shown AS (
  DELETE FROM tenure.shown AS v USING gone
  WHERE v.row_id = gone.id
), called AS (
  DELETE FROM tenure.deliveries AS c USING gone
  WHERE c.row_id = gone.id
), said AS (
  DELETE FROM tenure.said AS t USING gone
  WHERE t.row_id = gone.id
), keys AS (
  DELETE FROM tenure.idempotency AS k USING gone
  WHERE k.key = gone.idempotency_key  -- implied: of one row there is one key; finds it by the primary key
    AND k.row_id = gone.id
), told AS MATERIALIZED (
  SELECT tenure.rouse(array_agg(gone.queue), array_agg(tenure.bucket(gone.partition_key))) AS woken FROM gone
  WHERE gone.ordered  -- implied: a note too many is no harm; the others make no row runnable
)
SELECT gone.id, told.woken FROM gone CROSS JOIN told CROSS JOIN counted CROSS JOIN forgotten
