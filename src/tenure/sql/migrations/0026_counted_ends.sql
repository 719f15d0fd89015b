-- Every end of an attempt other than a completion is counted, and people see of which group a row is.
-- kind: expand

CREATE OR REPLACE VIEW tenure.inbox AS
  SELECT id, COALESCE(partition_key, id::text) AS partition_key,
         tenure.bucket(COALESCE(partition_key, id::text)) AS partition_bucket, payload, status, attempts, max_attempts,
         claimed_by, claimed_at, lease_expires_at, lease_generation, available_at, NULL::timestamptz AS completed_at,
         last_error, idempotency_key, created_at,
         kind, queue, priority, ordered, fence_token, cancel_asked, NULL::timestamptz AS finished_at,
         NULL::text AS finished_by, headers, counted
  FROM tenure.live
  UNION ALL
  SELECT id, COALESCE(partition_key, id::text), tenure.bucket(COALESCE(partition_key, id::text)), payload, status, attempts, max_attempts,
         NULL, claimed_at, NULL, lease_generation, available_at, NULL,
         last_error, idempotency_key, created_at,
         kind, queue, priority, ordered, fence_token, false, finished_at, finished_by, headers, counted
  FROM tenure.dead
  UNION ALL
  SELECT id, COALESCE(partition_key, id::text), tenure.bucket(COALESCE(partition_key, id::text)), payload, 'completed', attempts, max_attempts,
         NULL, claimed_at, NULL, lease_generation, available_at, completed_at,
         last_error, idempotency_key, created_at,
         kind, queue, priority, ordered, fence_token, false, completed_at, finished_by, headers, counted
  FROM tenure.archive;

-- As in 0011_runs.sql, and counted.
CREATE OR REPLACE FUNCTION tenure.end_attempts(
  ids uuid[], generations bigint[], fences bigint[], how text, errors text[], delays float8[], patient boolean DEFAULT true
) RETURNS TABLE (row_id uuid, token bigint, next_status text, next_at timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH named AS MATERIALIZED (
    SELECT i.id, i.queue, i.partition_key, i.seq, i.claim_id, i.ordered
    FROM unnest(ids, generations, fences) AS lease (id, generation, fence)
    JOIN tenure.live AS i ON i.id = lease.id
    WHERE i.status = 'processing'  -- implied: asked again under the lock
      AND i.lease_generation = lease.generation
      AND i.fence_token = lease.fence
  ), others AS MATERIALIZED (
    SELECT r.id, r.queue, r.partition_key
    FROM (SELECT n.queue, n.partition_key, n.claim_id, min(n.seq) AS seq FROM named AS n
          WHERE n.ordered
          GROUP BY n.queue, n.partition_key, n.claim_id) AS first
    CROSS JOIN LATERAL (
      SELECT h.bucket, h.run_to FROM tenure.heads AS h
      WHERE h.queue = first.queue AND h.partition_key = first.partition_key LIMIT 1) AS h
    CROSS JOIN LATERAL (
      SELECT r.id, r.queue, r.partition_key FROM tenure.live AS r
      WHERE r.queue = first.queue AND r.partition_key = first.partition_key
        AND r.ordered AND tenure.bucket(r.partition_key) = h.bucket  -- implied: a claim of ordered rows has no others; lets live_heads serve
        AND r.seq > first.seq
        AND r.seq <= h.run_to  -- implied: its claim has no others; only spares the look
        AND r.claim_id = first.claim_id
        AND r.id <> ALL (ARRAY(SELECT n.id FROM named AS n))) AS r  -- a row that was asked for with an old token goes back as well
  ), waited_for AS (
    SELECT i AS live_row, i.id FROM tenure.live AS i
    WHERE patient
      AND i.id = ANY (ARRAY(SELECT n.id FROM named AS n UNION ALL SELECT o.id FROM others AS o))
    ORDER BY i.id
    FOR UPDATE
  ), at_hand AS (
    SELECT i AS live_row, i.id FROM tenure.live AS i
    WHERE NOT patient
      AND i.id = ANY (ARRAY(SELECT n.id FROM named AS n UNION ALL SELECT o.id FROM others AS o))
    ORDER BY i.id
    FOR UPDATE SKIP LOCKED
  ), locked AS MATERIALIZED (
    SELECT w.live_row, w.id FROM waited_for AS w UNION ALL SELECT a.live_row, a.id FROM at_hand AS a
  ), left_out AS MATERIALIZED (
    SELECT o.queue, o.partition_key FROM others AS o
    WHERE o.id NOT IN (SELECT l.id FROM locked AS l)
      AND NOT patient  -- implied: nobody else ends a row that is waited for
  ), asked AS (
    SELECT l.live_row, lease.error, lease.delay FROM locked AS l
    JOIN unnest(ids, generations, fences, errors, delays) AS lease (id, generation, fence, error, delay) ON lease.id = l.id
    WHERE (l.live_row).status = 'processing'
      AND (l.live_row).lease_generation = lease.generation
      AND (l.live_row).fence_token = lease.fence
      AND (NOT (l.live_row).ordered
           OR ((l.live_row).queue, (l.live_row).partition_key) NOT IN (SELECT o.queue, o.partition_key FROM left_out AS o))
  ), behind AS (
    SELECT l.live_row FROM locked AS l
    JOIN others AS o ON o.id = l.id
    -- Still of the claim, after the wait, and behind one that ends now.
    WHERE (o.queue, o.partition_key, (l.live_row).claim_id) IN (SELECT (a.live_row).queue, (a.live_row).partition_key, (a.live_row).claim_id FROM asked AS a)
  ), ended AS (
    SELECT a.live_row, a.error, a.delay, true AS answered, how AS how FROM asked AS a
    UNION ALL
    SELECT b.live_row, NULL, NULL, false, CASE WHEN how = 'expired' THEN how ELSE 'released' END FROM behind AS b
  ), held AS (
    SELECT i.id, i.seq, i.created_at, i.available_at, i.claimed_at, i.lease_generation, i.fence_token,
           i.attempts - CASE WHEN e.how = 'released' THEN 1 ELSE 0 END AS attempts,  -- given back unstarted: costs nothing
           i.max_attempts, i.priority, i.ordered, i.hold, i.limited, i.kind, i.queue, i.partition_key,
           i.claimed_by, i.idempotency_key, i.payload, i.headers, i.counted, COALESCE(e.error, i.last_error) AS last_error, e.error, e.how, e.answered,
           clock_timestamp() AS ended_at,
           clock_timestamp() + CASE WHEN e.delay IS NOT NULL THEN e.delay * interval '1 second'
                                    WHEN e.how = 'released' THEN interval '0'
                                    ELSE tenure.backoff(i.attempts) END AS next_at,
           CASE WHEN e.how = 'failed' THEN 'failed'
                WHEN e.how = 'dead_lettered' THEN 'dead_letter'
                WHEN i.cancel_asked THEN 'cancelled'
                WHEN e.how <> 'released' AND i.attempts >= i.max_attempts THEN 'dead_letter'
                ELSE 'pending' END AS next_status
    FROM ended AS e
    CROSS JOIN LATERAL (SELECT (e.live_row).*) AS i
  ), back AS (
    UPDATE tenure.live AS i
    SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL, claim_id = NULL,
        limited = false, attempts = held.attempts, available_at = held.next_at, last_error = held.last_error
    FROM held
    WHERE i.id = held.id
      AND held.next_status = 'pending'  -- implied: a row that gone deletes is not there to be updated
  ), gone AS (
    DELETE FROM tenure.live AS i USING held WHERE i.id = held.id AND held.next_status <> 'pending'
  ), buried AS (
    INSERT INTO tenure.dead (id, seq, created_at, available_at, claimed_at, finished_at, lease_generation, fence_token,
                             attempts, max_attempts, priority, ordered, hold, blocks, status, kind, queue,
                             partition_key, finished_by, idempotency_key, payload, last_error, headers, counted)
    SELECT held.id, held.seq, held.created_at, held.available_at, held.claimed_at, held.ended_at, held.lease_generation, held.fence_token,
           held.attempts, held.max_attempts, held.priority, held.ordered, held.hold,
           -- The key goes on with its next row, unless this one ended badly and says hold: then it waits for an operator.
           held.ordered AND held.hold AND held.next_status IN ('failed', 'dead_letter'), held.next_status, held.kind, held.queue,
           held.partition_key, held.claimed_by, held.idempotency_key, held.payload, held.last_error, held.headers, held.counted
    FROM held WHERE held.next_status <> 'pending'
  ), tape AS (
    INSERT INTO tenure.attempts (row_id, fence_token, lease_generation, worker, claimed_at, ended_at, outcome, error)
    SELECT held.id, held.fence_token, held.lease_generation, held.claimed_by, held.claimed_at, held.ended_at, held.how, held.error
    FROM held
  ), freed AS (
    INSERT INTO tenure.arrivals (queue, partition_key, seq)
    SELECT held.queue, held.partition_key, held.seq FROM held
    WHERE held.ordered
      AND held.next_status <> 'pending'  -- implied: those that go back are noted by live_change
  ), given_back AS (
    DELETE FROM tenure.permits AS p USING held
    WHERE p.row_id = held.id
      AND held.limited  -- implied: only rows claimed under limits have permits; spares the others the look
  ), told AS MATERIALIZED (
    SELECT CASE WHEN count(*) > 0 THEN tenure.count_ends(array_agg(held.counted), array_agg(held.next_status)) END AS groups FROM held
    WHERE held.counted > 0  -- implied: count_ends passes the others by
      AND held.next_status <> 'pending'
  )
  SELECT held.id, held.fence_token, held.next_status, held.next_at
  FROM held CROSS JOIN told  -- so that ends are counted; where nobody is answered, none has ended
  WHERE held.answered;
END
$$;
