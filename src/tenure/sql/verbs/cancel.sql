-- cancel: end pending rows as cancelled; ask the holders of processing rows to stop
-- in: ids uuid[], reason text, undone boolean (a flow has nothing left to undo)
-- out: id, outcome (cancelled, asked), told, woken
-- why: a row whose holder was asked never becomes pending again: its retry, release or expiry ends it as cancelled.
-- A flow that has begun is asked to undo what it did, as by cancel_flow; one that has not begun has nothing to undo.
WITH found AS (
  SELECT i.id, i.seq, i.created_at, i.available_at, i.lease_generation, i.fence_token, i.attempts, i.max_attempts,
         i.priority, i.ordered, i.hold, i.status, i.claimed_by, i.kind, i.queue, i.partition_key, i.idempotency_key, i.payload,
         i.headers, i.counted,
         NOT :undone::boolean AND (i.headers ? 'tenure-flow') IS TRUE AND (i.status = 'processing' OR EXISTS (SELECT FROM tenure.steps AS s WHERE s.row_id = i.id)) AS undoes
  FROM tenure.live AS i
  WHERE i.id = ANY (:ids::uuid[])
  ORDER BY i.id
  FOR UPDATE
), asked AS (
  UPDATE tenure.live AS i SET cancel_asked = true, last_error = :reason FROM found
  WHERE i.id = found.id
    AND NOT found.undoes
    AND found.status = 'processing'  -- implied: a row that gone deletes is not there to be updated
), undoing AS MATERIALIZED (
  SELECT count(tenure.cancel_flow(found.id, NULL, :reason)) AS flows FROM found
  WHERE found.undoes
), gone AS (
  DELETE FROM tenure.live AS i USING found
  WHERE i.id = found.id
    AND NOT found.undoes
    AND found.status = 'pending'
), buried AS (
  INSERT INTO tenure.dead (id, seq, created_at, available_at, finished_at, lease_generation, fence_token, attempts, max_attempts,
                           priority, ordered, hold, status, kind, queue, partition_key, idempotency_key,
                           payload, last_error, headers, counted)
  SELECT id, seq, created_at, available_at, clock_timestamp(), lease_generation, fence_token, attempts, max_attempts,
         priority, ordered, hold, 'cancelled', kind, queue, partition_key, idempotency_key, payload, :reason, headers, counted
  FROM found
  WHERE status = 'pending'
    AND NOT found.undoes
), freed AS (
  INSERT INTO tenure.arrivals (queue, partition_key, seq)
  SELECT found.queue, found.partition_key, found.seq FROM found
  WHERE found.ordered
    AND found.status = 'pending'  -- implied: an arrival too many is no harm
), counted AS MATERIALIZED (
  SELECT tenure.count_ends(array_agg(found.counted), array_agg('cancelled'::text)) AS groups FROM found
  WHERE found.status = 'pending'
    AND NOT found.undoes
    AND found.counted > 0  -- implied: count_ends passes the others by
), told AS MATERIALIZED (
  -- The head of an ordered key may be gone: its next row need not wait for anybody's next look.
  SELECT tenure.rouse(array_agg(found.queue), array_agg(tenure.bucket(found.partition_key))) AS woken FROM found
  WHERE found.ordered  -- implied: a note too many is no harm; the others make no row runnable
)
SELECT found.id, CASE WHEN found.status = 'pending' AND NOT found.undoes THEN 'cancelled' ELSE 'asked' END,
       CASE found.status WHEN 'processing' THEN pg_notify(tenure.channel(), 'cancel ' || found.claimed_by) END,
       told.woken
FROM found CROSS JOIN told CROSS JOIN counted CROSS JOIN undoing
