-- delete: delete rows that nobody holds, with their tape, their effects and the ordered key they blocked
-- in: ids uuid[]
-- out: id, woken
-- why: the idempotency key stays until retention forgets it, so that a late duplicate does not run what was deleted. A
-- locked row is skipped: it is being claimed, redriven or deleted right now. So is a flow that
-- has begun, and its dead letter until what it did is undone: cancel_flow undoes it, erase does not.
WITH waiting AS (
  DELETE FROM tenure.live AS i
  WHERE i.id = ANY (ARRAY(
    SELECT p.id FROM tenure.live AS p
    WHERE p.id = ANY (:ids::uuid[])
      AND p.status = 'pending'
      AND NOT ((p.headers ? 'tenure-flow') IS TRUE AND EXISTS (SELECT FROM tenure.steps AS s WHERE s.row_id = p.id))
    ORDER BY p.id
    FOR UPDATE SKIP LOCKED))
  RETURNING i.id, i.seq, i.ordered, i.queue, i.partition_key, i.counted
), buried AS (
  DELETE FROM tenure.dead AS d
  WHERE d.id = ANY (ARRAY(
    SELECT p.id FROM tenure.dead AS p
    WHERE p.id = ANY (:ids::uuid[])
      AND NOT (p.status = 'dead_letter' AND (p.headers ? 'tenure-flow') IS TRUE AND EXISTS (SELECT FROM tenure.steps AS s WHERE s.row_id = p.id)
        AND NOT EXISTS (SELECT FROM tenure.steps AS s WHERE s.row_id = p.id AND s.run = COALESCE((p.headers ->> 'tenure-run')::int, 1) AND s.path = 'undone' AND s.state = 'done'))
    ORDER BY p.id
    FOR UPDATE SKIP LOCKED))
  RETURNING d.id, d.seq, d.ordered, d.queue, d.partition_key
), kept AS (
  DELETE FROM tenure.archive AS a
  WHERE a.id = ANY (ARRAY(
    SELECT p.id FROM tenure.archive AS p
    WHERE p.id = ANY (:ids::uuid[])
    ORDER BY p.id
    FOR UPDATE SKIP LOCKED))
  RETURNING a.id
), gone AS (
  SELECT id, seq, ordered, queue, partition_key FROM waiting
  UNION ALL
  SELECT id, seq, ordered, queue, partition_key FROM buried
  UNION ALL
  SELECT id, NULL, false, NULL, NULL FROM kept
), freed AS (
  INSERT INTO tenure.arrivals (queue, partition_key, seq)
  SELECT gone.queue, gone.partition_key, gone.seq FROM gone
  WHERE gone.ordered
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
), told AS MATERIALIZED (
  SELECT tenure.rouse(array_agg(gone.queue), array_agg(tenure.bucket(gone.partition_key))) AS woken FROM gone
  WHERE gone.ordered  -- implied: a note too many is no harm; the others make no row runnable
)
SELECT gone.id, told.woken FROM gone CROSS JOIN told CROSS JOIN counted
