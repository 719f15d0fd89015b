-- Runs: rows of one ordered key under one claim, done one after the other.
-- kind: contract

-- Keys of these queues that could go on now, up to n; their heads are locked. All buckets: those that have been due longest.
-- With buckets: bucket by bucket as given, in queues where anything is due at all. What others have locked is passed by.
CREATE FUNCTION tenure.due_heads(of_queues text[], owned int[], n int, moment timestamptz, from_due timestamptz, passed text[])
RETURNS SETOF tenure.heads LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  IF owned IS NULL THEN
    RETURN QUERY
    SELECT h.* FROM unnest(of_queues) AS q (queue)
    CROSS JOIN LATERAL (
      SELECT k.* FROM tenure.heads AS k
      WHERE k.queue = q.queue
        AND k.bucket >= 0  -- implied: always so; lets heads_due serve and no other index
        AND k.due_at >= from_due  -- implied: a measure of effort, not a promise
        AND k.due_at <= moment
        AND k.run_to IS NULL
        AND ROW(k.queue, k.partition_key)::text <> ALL (passed)  -- implied: each turn asks for twice as many; spares another look
      ORDER BY k.due_at LIMIT n
      FOR UPDATE SKIP LOCKED) AS h
    LIMIT n;
    RETURN;
  END IF;
  RETURN QUERY
  SELECT h.* FROM unnest(ARRAY(
    SELECT q.queue FROM unnest(of_queues) AS q (queue)
    WHERE EXISTS (SELECT FROM tenure.heads AS k
                  WHERE k.queue = q.queue  -- implied: like those below, it only spares the walk through buckets with nothing due
                    AND k.bucket >= 0  -- implied: as above
                    AND k.due_at >= from_due  -- implied: as above
                    AND k.due_at <= moment  -- implied: as above
                    AND k.run_to IS NULL)  -- implied: as above
    )) AS q (queue)
  CROSS JOIN unnest(owned) AS o (bucket)
  CROSS JOIN LATERAL (
    SELECT k.* FROM tenure.heads AS k
    WHERE k.queue = q.queue AND k.bucket = o.bucket
      AND k.bucket < 1024  -- implied: always so; lets heads_ready serve and no other index
      AND k.due_at >= from_due  -- implied: as above
      AND k.due_at <= moment
      AND k.run_to IS NULL
      AND ROW(k.queue, k.partition_key)::text <> ALL (passed)
    ORDER BY k.due_at LIMIT n
    FOR UPDATE SKIP LOCKED) AS h
  LIMIT n;
END
$$;

-- Claim the next rows of up to n keys: of each a run, the rows that could run one after the other, up to `run_length`. A row that
-- has begun before is a run of its own, and one with a single attempt is never behind another: who dies in a run costs each of its rows one. Rows are never waited for: a key whose next row is locked is passed by.
CREATE FUNCTION tenure.claim_ordered(
  of_queues text[], owned int[], n int, run_length int, for_worker text, under_claim bigint, lease_seconds float8, seen_epoch int,
  from_arrival bigint, from_due timestamptz
) RETURNS TABLE (
  id uuid, kind text, queue text, partition_key text, partition_bucket int, payload text, attempts int, max_attempts int,
  available_seconds float8, lease_generation bigint, fence_token bigint, ends_seconds float8, headers text
) LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
  free_queues text[] := ARRAY(SELECT q.queue FROM unnest(of_queues) WITH ORDINALITY AS q (queue, nth)
                              WHERE NOT EXISTS (SELECT FROM tenure.queues AS s WHERE s.queue = q.queue AND s.limited) ORDER BY q.nth);
  moment timestamptz;
  found record;
  taken record;
  passed text[] := '{}';
  ids uuid[] := '{}';
  missing int := n;
BEGIN
  IF EXISTS (SELECT FROM tenure.workers AS w WHERE w.id = for_worker AND (w.status <> 'alive' OR w.gone_at IS NOT NULL)) THEN
    RETURN;
  END IF;
  PERFORM tenure.refresh_heads(free_queues, from_arrival);
  moment := clock_timestamp();
  FOR turn IN 1 .. 12 LOOP
    SELECT array_agg(h.queue) AS queues, array_agg(h.partition_key) AS keys, array_agg(h.bucket) AS buckets,
           array_agg(h.from_seq) AS froms, array_agg(h.begun_seq) AS begun, array_agg(h.begun_to) AS begun_to INTO found
    FROM tenure.due_heads(free_queues, owned, missing * (1 << (turn - 1)), moment, from_due, passed) AS h;
    EXIT WHEN found.queues IS NULL;

    -- A statement of its own: it sees what was committed before the heads were locked.
    WITH candidate AS MATERIALIZED (
      SELECT h.nth, h.queue, h.partition_key, r.id, r.seq, r.status, r.available_at, r.attempts, r.max_attempts,
             row_number() OVER (PARTITION BY h.nth ORDER BY r.seq) AS place
      FROM unnest(found.queues, found.keys, found.buckets, found.froms, found.begun) WITH ORDINALITY
        AS h (queue, partition_key, bucket, from_seq, begun_seq, nth)
      CROSS JOIN LATERAL (
        SELECT r.id, r.seq, r.status, r.available_at, r.attempts, r.max_attempts FROM tenure.live AS r
        WHERE r.ordered AND r.queue = h.queue AND tenure.bucket(r.partition_key) = h.bucket AND r.partition_key = h.partition_key
          AND r.seq >= COALESCE(h.begun_seq, h.from_seq)
        ORDER BY r.seq LIMIT CASE WHEN h.begun_seq IS NULL THEN run_length ELSE 1 END) AS r
    ), locked AS (
      SELECT r.id FROM tenure.live AS r
      WHERE r.id = ANY (ARRAY(SELECT c.id FROM candidate AS c WHERE c.status = 'pending' AND c.available_at <= moment))
        AND r.status = 'pending'
        AND r.available_at <= moment
      ORDER BY r.id
      FOR UPDATE SKIP LOCKED
    ), run AS (
      SELECT c.nth, c.queue, c.partition_key, c.id, c.seq, dense_rank() OVER (ORDER BY c.nth) AS rank
      FROM (SELECT c.nth, c.queue, c.partition_key, c.id, c.seq,
                   bool_and(c.id IN (SELECT l.id FROM locked AS l) AND (c.place = 1 OR c.attempts = 0 AND c.max_attempts > 1)) OVER upto
                     AND (c.place = 1 OR first_value(c.attempts) OVER upto = 0) AS may_run
            FROM candidate AS c WINDOW upto AS (PARTITION BY c.nth ORDER BY c.seq)) AS c
      WHERE c.may_run
    ), marked AS (
      UPDATE tenure.heads AS h SET run_from = r.first, run_to = r.last,
             from_seq = CASE WHEN h.begun_seq IS NULL THEN r.first ELSE h.from_seq END  -- implied: only quicker next time
      FROM (SELECT r.queue, r.partition_key, min(r.seq) AS first, max(r.seq) AS last FROM run AS r
            WHERE r.rank <= missing GROUP BY r.queue, r.partition_key) AS r
      WHERE h.queue = r.queue AND h.partition_key = r.partition_key
      RETURNING h.queue, h.partition_key
    )
    SELECT (SELECT array_agg(r.id) FROM run AS r WHERE r.rank <= missing) AS ids, (SELECT count(*)::int FROM marked) AS keys,
           (SELECT array_agg(h.nth) FROM unnest(found.keys) WITH ORDINALITY AS h (partition_key, nth)
            WHERE h.nth NOT IN (SELECT r.nth FROM run AS r)) AS others INTO taken;
    ids := ids || COALESCE(taken.ids, '{}');
    missing := missing - taken.keys;
    EXIT WHEN missing = 0;  -- implied: zero heads are asked for
    IF taken.others IS NOT NULL THEN
      -- Their rows are locked, or were changed a moment ago: see how they stand, and pass them by.
      PERFORM tenure.look_at(array_agg(found.queues[o]), array_agg(found.keys[o]), array_agg(found.buckets[o]), array_agg(found.froms[o]),
                             array_agg(found.begun[o]), array_agg(found.begun_to[o]), array_agg(NULL::bigint), array_agg(NULL::bigint))
      FROM unnest(taken.others) AS o;
      passed := passed || ARRAY(SELECT ROW(found.queues[o], found.keys[o])::text FROM unnest(taken.others) AS o);
    END IF;
  END LOOP;

  RETURN QUERY
  WITH claimed AS (
    UPDATE tenure.live AS i
    SET status = 'processing',
        claimed_by = for_worker,
        claimed_at = moment,
        lease_expires_at = moment + lease_seconds * interval '1 second',
        lease_generation = i.lease_generation + 1,
        fence_token = (SELECT tenure.next_fence(seen_epoch)),
        claim_id = under_claim,
        attempts = i.attempts + 1
    WHERE i.id = ANY (ids)
    RETURNING i.id, i.kind, i.queue, i.partition_key, i.payload, i.attempts, i.max_attempts, i.available_at, i.lease_generation,
              i.fence_token, i.lease_expires_at, i.headers, i.seq
  )
  SELECT c.id, c.kind, c.queue, c.partition_key, tenure.bucket(c.partition_key), c.payload::text, c.attempts, c.max_attempts,
         date_part('epoch', c.available_at), c.lease_generation, c.fence_token, date_part('epoch', c.lease_expires_at), c.headers::text
  FROM claimed AS c ORDER BY c.queue, c.partition_key, c.seq;
END
$$;

-- End attempts other than by completion, all under their leases. With a row of a run, the rows behind it go back: what follows in
-- a key must not be done before it. They are unstarted, unless the worker is gone: then nobody knows, and each costs an attempt.
-- A holder waits for rows behind that somebody has locked; others leave the whole run as it is for now.
DROP FUNCTION tenure.end_attempts(uuid[], bigint[], bigint[], text, text[], float8[]);
CREATE FUNCTION tenure.end_attempts(
  ids uuid[], generations bigint[], fences bigint[], how text, errors text[], delays float8[], patient boolean DEFAULT true
) RETURNS TABLE (row_id uuid, token bigint, next_status text, next_at timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH named AS MATERIALIZED (
    SELECT i.id, i.queue, i.partition_key, i.seq, i.claim_id, i.ordered
    FROM unnest(ids, generations, fences) AS lease (id, generation, fence)
    JOIN tenure.live AS i ON i.id = lease.id
    WHERE i.status = 'processing'  -- implied: asked again under the lock, like the next two
      AND i.lease_generation = lease.generation  -- implied: as above
      AND i.fence_token = lease.fence  -- implied: as above
  ), others AS MATERIALIZED (
    SELECT r.id, r.queue, r.partition_key, r.claim_id
    FROM (SELECT n.queue, n.partition_key, n.claim_id, min(n.seq) AS seq FROM named AS n
          WHERE n.ordered
          GROUP BY n.queue, n.partition_key, n.claim_id) AS first
    CROSS JOIN LATERAL (
      SELECT h.bucket, h.run_to FROM tenure.heads AS h
      WHERE h.queue = first.queue AND h.partition_key = first.partition_key LIMIT 1) AS h
    CROSS JOIN LATERAL (
      SELECT r.id, r.queue, r.partition_key, r.claim_id FROM tenure.live AS r
      WHERE r.queue = first.queue AND r.partition_key = first.partition_key
        AND r.ordered AND tenure.bucket(r.partition_key) = h.bucket  -- implied: a claim of ordered rows has no others; lets live_heads serve
        AND r.seq > first.seq
        AND r.seq <= h.run_to  -- implied: its claim has no others; only spares the look
        AND r.claim_id = first.claim_id
        AND r.id <> ALL (ids)) AS r
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
    WHERE (l.live_row).claim_id = o.claim_id  -- still, after the wait
      AND (o.queue, o.partition_key) NOT IN (SELECT x.queue, x.partition_key FROM left_out AS x)
  ), ended AS (
    SELECT a.live_row, a.error, a.delay, true AS answered, how AS how FROM asked AS a
    UNION ALL
    SELECT b.live_row, NULL, NULL, false, CASE WHEN how = 'expired' THEN how ELSE 'released' END FROM behind AS b
  ), held AS (
    SELECT i.id, i.seq, i.created_at, i.available_at, i.claimed_at, i.lease_generation, i.fence_token,
           i.attempts - CASE WHEN e.how = 'released' THEN 1 ELSE 0 END AS attempts,  -- given back unstarted: costs nothing
           i.max_attempts, i.priority, i.ordered, i.hold, i.limited, i.kind, i.queue, i.partition_key,
           i.claimed_by, i.idempotency_key, i.payload, i.headers, COALESCE(e.error, i.last_error) AS last_error, e.error, e.how, e.answered,
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
                             partition_key, finished_by, idempotency_key, payload, last_error, headers)
    SELECT held.id, held.seq, held.created_at, held.available_at, held.claimed_at, held.ended_at, held.lease_generation, held.fence_token,
           held.attempts, held.max_attempts, held.priority, held.ordered, held.hold,
           -- The key goes on with its next row, unless this one ended badly and says hold: then it waits for an operator.
           held.ordered AND held.hold AND held.next_status IN ('failed', 'dead_letter'), held.next_status, held.kind, held.queue,
           held.partition_key, held.claimed_by, held.idempotency_key, held.payload, held.last_error, held.headers
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
  )
  SELECT held.id, held.fence_token, held.next_status, held.next_at FROM held WHERE held.answered;
END
$$;

CREATE OR REPLACE FUNCTION tenure.take_back(ids uuid[], generations bigint[], fences bigint[], errors text[]) RETURNS SETOF uuid LANGUAGE sql VOLATILE AS $$
  SELECT e.row_id FROM tenure.end_attempts(ids, generations, fences, 'released', errors, NULL, false) AS e
$$;
