-- Ordered keys, second design: what can run next of each key is a row of its own, found by when it is due.
-- kind: contract

-- A key with rows has one head. It is only ever changed by claims, which look at the key anew whenever an arrival says that
-- something has changed there. Everything in it can be found out from live and dead: it is a memory, not a truth.
CREATE TABLE tenure.heads (
  queue         text        NOT NULL,
  partition_key text        NOT NULL,
  bucket        int         NOT NULL,
  due_at        timestamptz NOT NULL DEFAULT '-infinity',  -- when its next row is due; infinity: it waits for an operator
  from_seq      bigint      NOT NULL,  -- no row of the key stands before it
  begun_seq     bigint,                -- this row has begun and is not over: no other one starts before it
  run_from      bigint,                -- taken: the rows from here ...
  run_to        bigint,                -- ... to here were claimed together
  PRIMARY KEY (queue, partition_key)
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
-- Each has a condition that is always true and that one kind of search alone names: no plan can take the other.
CREATE INDEX heads_due ON tenure.heads (queue, due_at) WHERE bucket >= 0;
CREATE INDEX heads_ready ON tenure.heads (queue, bucket, due_at) WHERE bucket < 1024;

-- Keys where rows came, ended or went back since a claim last looked at them. Written by whoever does that, in the same
-- transaction, and never waited for: there is nothing unique about an arrival.
CREATE TABLE tenure.arrivals (
  id            bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  queue         text   NOT NULL,
  partition_key text   NOT NULL,
  seq           bigint NOT NULL,  -- the first of those rows
  PRIMARY KEY (queue, id)
) WITH (
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- An ended row that keeps its key waiting for an operator.
ALTER TABLE tenure.dead ADD COLUMN blocks boolean NOT NULL DEFAULT false;
CREATE INDEX dead_blocks ON tenure.dead (queue, partition_key) WHERE blocks;

CREATE FUNCTION tenure.note_arrivals() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM arrived AS a WHERE a.ordered) THEN
    INSERT INTO tenure.arrivals (queue, partition_key, seq)
    SELECT a.queue, a.partition_key, min(a.seq) FROM arrived AS a
    WHERE a.ordered AND a.partition_key IS NOT NULL  -- implied: live_key refuses a row without one
    GROUP BY a.queue, a.partition_key;
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER live_arrivals AFTER INSERT ON tenure.live REFERENCING NEW TABLE AS arrived FOR EACH STATEMENT EXECUTE FUNCTION tenure.note_arrivals();

-- A row that goes back to wait, or whose time is changed, by us or by hand.
CREATE FUNCTION tenure.note_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO tenure.arrivals (queue, partition_key, seq) VALUES (NEW.queue, NEW.partition_key, NEW.seq);
  RETURN NULL;
END
$$;
CREATE TRIGGER live_change AFTER UPDATE OF available_at ON tenure.live FOR EACH ROW WHEN (NEW.ordered) EXECUTE FUNCTION tenure.note_change();

-- Look anew at these heads, which the caller has locked: is the key still taken, which row is its next, when is it due?
--
--                 claimed                          every row of the run is over
--     free ─────────────────────▶ taken ──────────────────────────────────────────▶ free, or gone with its last row
--
-- A row that has begun (attempts > 0) goes first, whatever came since with an earlier number: a row of a transaction that
-- was open for long. Only rows of the last run can have begun.
CREATE FUNCTION tenure.look_at(
  queues text[], partition_keys text[], buckets int[], from_seqs bigint[], begun_seqs bigint[], runs_from bigint[], runs_to bigint[]
) RETURNS void LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  WITH seen AS MATERIALIZED (
    SELECT h.queue, h.partition_key, next.seq, next.available_at, begun.seq AS begun_seq,
           busy.taken OR next.status = 'processing' AS taken, h.from_seq, h.run_from, h.run_to,
           EXISTS (SELECT FROM tenure.dead AS d WHERE d.queue = h.queue AND d.partition_key = h.partition_key AND d.blocks) AS blocked
    FROM unnest(queues, partition_keys, buckets, from_seqs, begun_seqs, runs_from, runs_to)
      AS h (queue, partition_key, bucket, from_seq, begun_seq, run_from, run_to)
    CROSS JOIN LATERAL (
      SELECT EXISTS (
        SELECT FROM tenure.live AS r
        WHERE r.ordered AND r.queue = h.queue AND tenure.bucket(r.partition_key) = h.bucket AND r.partition_key = h.partition_key
          AND r.seq BETWEEN h.run_from AND h.run_to
          AND r.status = 'processing') AS taken
    ) AS busy
    CROSS JOIN LATERAL (
      SELECT (SELECT r.seq FROM tenure.live AS r
              WHERE r.ordered AND r.queue = h.queue AND tenure.bucket(r.partition_key) = h.bucket AND r.partition_key = h.partition_key
                AND r.seq BETWEEN COALESCE(h.run_from, h.begun_seq) AND COALESCE(h.run_to, h.begun_seq)
                AND r.attempts > 0
              ORDER BY r.seq LIMIT 1) AS seq
    ) AS begun
    LEFT JOIN LATERAL (
      SELECT r.seq, r.available_at, r.status FROM tenure.live AS r
      WHERE r.ordered AND r.queue = h.queue AND tenure.bucket(r.partition_key) = h.bucket AND r.partition_key = h.partition_key
        AND r.seq >= COALESCE(begun.seq, h.from_seq)
      ORDER BY r.seq LIMIT 1
    ) AS next ON true
  ), gone AS (
    DELETE FROM tenure.heads AS h USING seen
    WHERE h.queue = seen.queue AND h.partition_key = seen.partition_key
      AND seen.seq IS NULL
  )
  UPDATE tenure.heads AS h
  SET from_seq = CASE WHEN seen.taken OR seen.begun_seq IS NOT NULL THEN seen.from_seq ELSE seen.seq END,
      begun_seq = CASE WHEN seen.taken THEN h.begun_seq ELSE seen.begun_seq END,
      run_from = CASE WHEN seen.taken THEN COALESCE(seen.run_from, seen.seq) END,
      run_to = CASE WHEN seen.taken THEN COALESCE(seen.run_to, seen.seq) END,
      due_at = CASE WHEN seen.taken THEN h.due_at WHEN seen.blocked THEN 'infinity' ELSE seen.available_at END
  FROM seen
  WHERE h.queue = seen.queue AND h.partition_key = seen.partition_key
    AND seen.seq IS NOT NULL;  -- implied: a head that gone deletes is not there to be updated
END
$$;

-- Look at the keys of these queues where something has changed, up to 20 pages of 500 arrivals a queue. A head that another
-- claim has locked keeps its arrivals for the next look.
CREATE FUNCTION tenure.refresh_heads(of_queues text[], from_arrival bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  of_queue text;
  after bigint;
  arrived record;
  changed record;
  known record;
BEGIN
  FOREACH of_queue IN ARRAY ARRAY(
    SELECT q.queue FROM unnest(of_queues) AS q (queue)
    WHERE EXISTS (SELECT FROM tenure.arrivals AS a WHERE a.queue = q.queue AND a.id >= from_arrival)
  ) LOOP
    after := from_arrival - 1;
    FOR page IN 1 .. 20 LOOP
      SELECT array_agg(a.id) AS ids, array_agg(a.partition_key) AS keys, array_agg(a.seq) AS seqs, max(a.id) AS last INTO arrived
      FROM (SELECT n.id, n.partition_key, n.seq FROM tenure.arrivals AS n
            WHERE n.queue = of_queue AND n.id > after
            ORDER BY n.id LIMIT 500
            FOR UPDATE SKIP LOCKED) AS a;
      EXIT WHEN arrived.last IS NULL;
      SELECT array_agg(k.partition_key) AS keys, array_agg(k.seq) AS seqs INTO changed
      FROM (SELECT a.partition_key, min(a.seq) AS seq FROM unnest(arrived.keys, arrived.seqs) AS a (partition_key, seq)
            GROUP BY a.partition_key ORDER BY a.partition_key) AS k;

      -- Keys that have no head yet, in order: two claims that make the same ones wait for each other and do not deadlock.
      INSERT INTO tenure.heads (queue, partition_key, bucket, from_seq)
      SELECT of_queue, c.partition_key, tenure.bucket(c.partition_key), c.seq
      FROM unnest(changed.keys, changed.seqs) WITH ORDINALITY AS c (partition_key, seq, n)
      ORDER BY c.n
      ON CONFLICT DO NOTHING;

      SELECT array_agg(of_queue) AS queues, array_agg(c.partition_key) AS keys, array_agg(h.bucket) AS buckets,
             array_agg(LEAST(h.from_seq, c.seq)) AS froms, array_agg(h.begun_seq) AS begun, array_agg(h.run_from) AS runs_from,
             array_agg(h.run_to) AS runs_to INTO known
      FROM unnest(changed.keys, changed.seqs) AS c (partition_key, seq)
      CROSS JOIN LATERAL (
        SELECT k.bucket, k.from_seq, k.begun_seq, k.run_from, k.run_to FROM tenure.heads AS k
        WHERE k.queue = of_queue AND k.partition_key = c.partition_key
        LIMIT 1
        FOR UPDATE SKIP LOCKED) AS h;

      -- A statement of its own: it sees what was committed before the heads were locked.
      PERFORM tenure.look_at(known.queues, known.keys, known.buckets, known.froms, known.begun, known.runs_from, known.runs_to);
      DELETE FROM tenure.arrivals AS n
      WHERE n.queue = of_queue
        AND n.id = ANY (CASE WHEN cardinality(known.keys) = cardinality(changed.keys) THEN arrived.ids ELSE ARRAY(
              SELECT a.id FROM unnest(arrived.ids, arrived.keys) AS a (id, partition_key)
              WHERE a.partition_key IN (SELECT unnest(known.keys))) END);
      after := arrived.last;
    END LOOP;
  END LOOP;
END
$$;

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
        AND k.partition_key <> ALL (passed)
      ORDER BY k.due_at LIMIT n
      FOR UPDATE SKIP LOCKED) AS h
    LIMIT n;
    RETURN;
  END IF;
  RETURN QUERY
  SELECT h.* FROM unnest(ARRAY(
    SELECT q.queue FROM unnest(of_queues) AS q (queue)
    WHERE EXISTS (SELECT FROM tenure.heads AS k
                  WHERE k.queue = q.queue
                    AND k.bucket >= 0  -- implied: as above
                    AND k.due_at >= from_due  -- implied: as above
                    AND k.due_at <= moment
                    AND k.run_to IS NULL))) AS q (queue)
  CROSS JOIN unnest(owned) AS o (bucket)
  CROSS JOIN LATERAL (
    SELECT k.* FROM tenure.heads AS k
    WHERE k.queue = q.queue AND k.bucket = o.bucket
      AND k.bucket < 1024  -- implied: always so; lets heads_ready serve and no other index
      AND k.due_at >= from_due  -- implied: as above
      AND k.due_at <= moment
      AND k.run_to IS NULL
      AND k.partition_key <> ALL (passed)
    ORDER BY k.due_at LIMIT n
    FOR UPDATE SKIP LOCKED) AS h
  LIMIT n;
END
$$;

-- Claim the next rows of up to n keys: of each a run, the rows that could run one after the other, up to `run_length`. A row that
-- has begun before is a run of its own. Rows are never waited for: a key whose next row is locked is passed by.
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
           array_agg(h.from_seq) AS froms, array_agg(h.begun_seq) AS begun INTO found
    FROM tenure.due_heads(free_queues, owned, missing * (1 << (turn - 1)), moment, from_due, passed) AS h;
    EXIT WHEN found.queues IS NULL;

    -- A statement of its own: it sees what was committed before the heads were locked.
    WITH candidate AS MATERIALIZED (
      SELECT h.nth, h.queue, h.partition_key, r.id, r.seq, r.status, r.available_at, r.attempts,
             row_number() OVER (PARTITION BY h.nth ORDER BY r.seq) AS place
      FROM unnest(found.queues, found.keys, found.buckets, found.froms, found.begun) WITH ORDINALITY
        AS h (queue, partition_key, bucket, from_seq, begun_seq, nth)
      CROSS JOIN LATERAL (
        SELECT r.id, r.seq, r.status, r.available_at, r.attempts FROM tenure.live AS r
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
                   bool_and(c.id IN (SELECT l.id FROM locked AS l) AND (c.place = 1 OR c.attempts = 0)) OVER upto
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
                             array_agg(found.begun[o]), array_agg(NULL::bigint), array_agg(NULL::bigint))
      FROM unnest(taken.others) AS o;
      passed := passed || ARRAY(SELECT found.keys[o] FROM unnest(taken.others) AS o);
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

-- End attempts other than by completion, all under their leases. With a row of a run, the rows behind it go back unstarted: what
-- follows in a key must not be done before it. Of a run whose lease ran out, only its first row can have begun and failed; the
-- others cost no attempt.
CREATE OR REPLACE FUNCTION tenure.end_attempts(
  ids uuid[], generations bigint[], fences bigint[], how text, errors text[], delays float8[]
) RETURNS TABLE (row_id uuid, token bigint, next_status text, next_at timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH asked AS (
    SELECT i AS live_row, i.queue, i.partition_key, i.seq, i.claim_id, i.ordered, lease.error, lease.delay
    FROM unnest(ids, generations, fences, errors, delays) AS lease (id, generation, fence, error, delay)
    JOIN tenure.live AS i ON i.id = lease.id
    WHERE i.status = 'processing'
      AND i.lease_generation = lease.generation
      AND i.fence_token = lease.fence
    ORDER BY i.id
    FOR UPDATE OF i
  ), run AS (
    SELECT first.queue, first.partition_key, first.claim_id, first.seq, h.bucket, h.run_to, lead.seq AS lead_seq
    FROM (SELECT a.queue, a.partition_key, a.claim_id, min(a.seq) AS seq FROM asked AS a
          WHERE a.ordered
          GROUP BY a.queue, a.partition_key, a.claim_id) AS first
    CROSS JOIN LATERAL (
      SELECT h.bucket, h.run_from, h.run_to FROM tenure.heads AS h
      WHERE h.queue = first.queue AND h.partition_key = first.partition_key LIMIT 1) AS h
    CROSS JOIN LATERAL (
      SELECT r.seq FROM tenure.live AS r
      WHERE r.ordered AND r.queue = first.queue AND tenure.bucket(r.partition_key) = h.bucket AND r.partition_key = first.partition_key
        AND r.seq BETWEEN h.run_from AND h.run_to
        AND r.claim_id = first.claim_id
      ORDER BY r.seq LIMIT 1) AS lead
  ), behind AS (
    SELECT r.live_row FROM run
    CROSS JOIN LATERAL (
      SELECT r AS live_row FROM tenure.live AS r
      WHERE r.ordered AND r.queue = run.queue AND tenure.bucket(r.partition_key) = run.bucket AND r.partition_key = run.partition_key
        AND r.seq > run.seq AND r.seq <= run.run_to
        AND r.claim_id = run.claim_id
        AND r.id <> ALL (ids)
      ORDER BY r.seq
      FOR UPDATE) AS r
  ), ended AS (
    SELECT a.live_row, a.error, a.delay, true AS answered,
           CASE WHEN how = 'expired' AND EXISTS (SELECT FROM run WHERE run.queue = a.queue AND run.partition_key = a.partition_key AND run.lead_seq < a.seq)
                THEN 'released' ELSE how END AS how
    FROM asked AS a
    UNION ALL
    SELECT b.live_row, NULL, NULL, false, 'released' FROM behind AS b
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

-- The rows now processing. With patience => NULL every row is looked at; else see held's first version.
CREATE OR REPLACE FUNCTION tenure.held(patience int DEFAULT 32) RETURNS SETOF uuid LANGUAGE plpgsql STABLE AS $$
DECLARE
  spot record;
  candidate record;
  pending int;
BEGIN
  RETURN QUERY
  SELECT r.id FROM tenure.heads AS h
  JOIN tenure.live AS r ON r.ordered AND r.queue = h.queue AND tenure.bucket(r.partition_key) = h.bucket
    AND r.partition_key = h.partition_key AND r.seq BETWEEN h.run_from AND h.run_to;
  RETURN QUERY SELECT p.row_id FROM tenure.permits AS p;  -- a claim under limits may pass many pending rows by
  IF patience IS NULL THEN  -- implied: the walk below finds the same, bucket by bucket
    RETURN QUERY SELECT i.id FROM tenure.live AS i
    WHERE i.status = 'processing'  -- implied: whoever asks looks again at what is found; spares it the others
      AND NOT i.ordered;  -- implied: those are found by their heads, and twice is no harm
    RETURN;
  END IF;
  FOR spot IN SELECT s.queue, s.priority, s.bucket FROM tenure.spots() AS s LOOP
    pending := 0;
    FOR candidate IN
      SELECT i.id, i.status FROM tenure.live AS i
      WHERE NOT i.ordered  -- implied: like those below, it keeps to one stretch of live_ready; a wider walk finds the same
        AND i.queue = spot.queue  -- implied: as above
        AND i.priority = spot.priority  -- implied: as above
        AND tenure.bucket(COALESCE(i.partition_key, i.id::text)) = spot.bucket  -- implied: as above
        AND i.available_at <= statement_timestamp()  -- implied: what is held was due when it was claimed
      ORDER BY i.available_at
    LOOP
      IF candidate.status = 'processing' THEN
        pending := 0;
        RETURN NEXT candidate.id;
      ELSE
        pending := pending + 1;
        EXIT WHEN pending >= patience;  -- implied: a measure of effort, not a promise
      END IF;
    END LOOP;
  END LOOP;
END
$$;

-- The first rows of up to n ordered keys of a queue that could run now, from a bucket on, for people to look at: one probe a key,
-- 256 keys at most.
CREATE OR REPLACE FUNCTION tenure.free_heads(of_queue text, from_bucket int, n int) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
  WITH RECURSIVE head AS (
    (SELECT tenure.bucket(i.partition_key) AS bucket, i.partition_key, i.id, i.status, i.available_at, 1 AS nth
     FROM tenure.live AS i
     WHERE i.ordered AND i.queue = of_queue AND tenure.bucket(i.partition_key) >= from_bucket
     ORDER BY tenure.bucket(i.partition_key), i.partition_key, i.seq LIMIT 1)
    UNION ALL
    SELECT further.bucket, further.partition_key, further.id, further.status, further.available_at, head.nth + 1
    FROM head CROSS JOIN LATERAL (
      SELECT tenure.bucket(i.partition_key) AS bucket, i.partition_key, i.id, i.status, i.available_at FROM tenure.live AS i
      WHERE i.ordered AND i.queue = of_queue
        AND (tenure.bucket(i.partition_key), i.partition_key) > (head.bucket, head.partition_key)
      ORDER BY tenure.bucket(i.partition_key), i.partition_key, i.seq LIMIT 1) AS further
    WHERE head.nth < 256
  )
  SELECT head.id FROM head
  WHERE head.status = 'pending'
    AND head.available_at <= statement_timestamp()
    AND NOT EXISTS (SELECT FROM tenure.dead AS d WHERE d.queue = of_queue AND d.partition_key = head.partition_key AND d.blocks)
  LIMIT n
$$;

-- Claim from one queue within its limits, ordered rows and others alike. The queue's row is locked first, until the
-- transaction ends: its claims go one by one, and what one of them counts can only shrink. Rows are never waited for.
-- With a limit per key it looks at the 256 rows due longest and, if full keys hide what could run, at 512 more out of all
-- buckets, from a random one on: a full key may hide rows of its own bucket, whatever its backlog, and no others.
CREATE OR REPLACE FUNCTION tenure.claim_limited(
  of_queue text, most int, for_worker text, under_claim bigint, lease_seconds float8, seen_epoch int
) RETURNS TABLE (
  id uuid, kind text, queue text, partition_key text, partition_bucket int, payload text, attempts int, max_attempts int,
  available_seconds float8, lease_generation bigint, fence_token bigint, ends_seconds float8, headers text
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  limits record;
  moment timestamptz;
  tokens_now float8;
  running int;
  room int;
  look int;
  from_bucket int := floor(random() * 1024);
  unordered uuid[];
  heads uuid[];
  chosen uuid[];
  taken uuid[];
BEGIN
  SELECT q.paused, q.max_running, q.max_per_key, q.rate_per_second, q.burst, q.tokens, q.refilled_at INTO limits
  FROM tenure.queues AS q WHERE q.queue = of_queue
  FOR UPDATE;
  IF limits.paused OR EXISTS (SELECT FROM tenure.workers AS w WHERE w.id = for_worker AND (w.status <> 'alive' OR w.gone_at IS NOT NULL)) THEN
    RETURN;
  END IF;

  moment := clock_timestamp();
  tokens_now := tenure.refilled(limits.tokens, limits.rate_per_second, limits.burst, moment - limits.refilled_at);
  running := (SELECT count(*) FROM tenure.permits AS p WHERE p.queue = of_queue AND p.partition_key = '');
  room := LEAST(most, floor(tokens_now), limits.max_running - running);
  IF room < 1 THEN
    RETURN;
  END IF;

  look := CASE WHEN limits.max_per_key IS NULL THEN room ELSE GREATEST(room, 256) END;  -- implied: a longer look finds the same
  unordered := ARRAY(SELECT tenure.due_by_time(of_queue, look));
  PERFORM tenure.refresh_heads(ARRAY[of_queue], 0);
  heads := ARRAY(
    SELECT next.id FROM tenure.due_heads(ARRAY[of_queue], NULL, look, moment, '-infinity', '{}') AS h
    CROSS JOIN LATERAL (
      SELECT r.id FROM tenure.live AS r
      WHERE r.ordered AND r.queue = of_queue AND tenure.bucket(r.partition_key) = h.bucket AND r.partition_key = h.partition_key
        AND r.seq >= COALESCE(h.begun_seq, h.from_seq)
      ORDER BY r.seq LIMIT 1) AS next);
  chosen := ARRAY(SELECT tenure.admitted(of_queue, unordered || heads, limits.max_per_key, room));
  IF cardinality(chosen) < room AND cardinality(unordered) = look THEN
    unordered := unordered || ARRAY(SELECT tenure.due_by_bucket(of_queue, from_bucket, 512));
    chosen := ARRAY(SELECT tenure.admitted(of_queue, unordered || heads, limits.max_per_key, room));
  END IF;

  WITH locked AS (
    SELECT i.id, i.seq, i.ordered, i.partition_key FROM tenure.live AS i
    WHERE i.id = ANY (chosen)
      AND i.status = 'pending'
      AND i.available_at <= moment
    ORDER BY i.id
    FOR UPDATE SKIP LOCKED
  ), marked AS (
    UPDATE tenure.heads AS h SET run_from = locked.seq, run_to = locked.seq FROM locked
    WHERE locked.ordered AND h.queue = of_queue AND h.partition_key = locked.partition_key
    RETURNING locked.id
  )
  SELECT array_agg(locked.id) INTO taken FROM locked
  WHERE NOT locked.ordered OR locked.id IN (SELECT marked.id FROM marked);
  IF taken IS NULL THEN
    RETURN;
  END IF;

  PERFORM tenure.give_permits(of_queue, taken, limits.max_running, limits.max_per_key);
  UPDATE tenure.queues AS q SET tokens = tokens_now - cardinality(taken), refilled_at = moment
  WHERE q.queue = of_queue
    AND q.burst IS NOT NULL;  -- implied: without a rate there are no tokens to count; spares the write
  RETURN QUERY
  UPDATE tenure.live AS i
  SET status = 'processing',
      claimed_by = for_worker,
      claimed_at = moment,
      lease_expires_at = moment + lease_seconds * interval '1 second',
      lease_generation = i.lease_generation + 1,
      fence_token = (SELECT tenure.next_fence(seen_epoch)),
      claim_id = under_claim,
      attempts = i.attempts + 1,
      limited = true
  WHERE i.id = ANY (taken)
  RETURNING i.id, i.kind, i.queue, COALESCE(i.partition_key, i.id::text), tenure.bucket(COALESCE(i.partition_key, i.id::text)), i.payload::text,
            i.attempts, i.max_attempts, date_part('epoch', i.available_at), i.lease_generation, i.fence_token,
            date_part('epoch', i.lease_expires_at), i.headers::text;
END
$$;

-- From the first design: an arrival for each key brings its head into being at the first claim; keys in flight are taken,
-- keys that waited for an operator are blocked by the row they waited for.
UPDATE tenure.dead AS d SET blocks = true FROM tenure.keys AS k WHERE k.row_id = d.id;
INSERT INTO tenure.heads (queue, partition_key, bucket, from_seq, run_from, run_to, begun_seq)
SELECT i.queue, i.partition_key, tenure.bucket(i.partition_key), min(i.seq),
       min(i.seq) FILTER (WHERE i.status = 'processing'), min(i.seq) FILTER (WHERE i.status = 'processing'), min(i.seq)
FROM tenure.live AS i
WHERE i.ordered AND i.attempts > 0
GROUP BY i.queue, i.partition_key;
INSERT INTO tenure.arrivals (queue, partition_key, seq)
SELECT i.queue, i.partition_key, min(i.seq) FROM tenure.live AS i WHERE i.ordered GROUP BY i.queue, i.partition_key;
DROP TABLE tenure.keys;
