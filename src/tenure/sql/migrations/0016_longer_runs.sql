-- Ordered keys, quicker: a claim shares its rows among the keys that it finds, and looks at each key less often.
-- kind: contract

-- Look anew at these heads, which the caller has locked: is the key still taken, which row is its next, when is it due? As in
-- 0010_heads.sql, with one look at the rows of a key whose run is over instead of three. A key that can go on is due from now, not
-- since its next row is: so keys take turns, and none becomes due below a floor that somebody was told.
CREATE OR REPLACE FUNCTION tenure.look_at(
  queues text[], partition_keys text[], buckets int[], from_seqs bigint[], begun_seqs bigint[], begun_tos bigint[],
  runs_from bigint[], runs_to bigint[]
) RETURNS void LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
  WITH seen AS MATERIALIZED (
    SELECT h.queue, h.partition_key, COALESCE(begun.seq, first.seq) AS seq, COALESCE(begun.available_at, first.available_at) AS available_at,
           begun.seq AS begun_seq, busy.taken OR COALESCE(begun.status, first.status) = 'processing' AS taken,
           h.from_seq, h.begun_seq AS old_begun_seq, h.begun_to AS old_begun_to, h.run_from, h.run_to, GREATEST(h.begun_to, h.run_to) AS begun_to,
           (SELECT true FROM tenure.dead AS d WHERE d.queue = h.queue AND d.partition_key = h.partition_key AND d.blocks LIMIT 1) AS blocked
    FROM unnest(queues, partition_keys, buckets, from_seqs, begun_seqs, begun_tos, runs_from, runs_to)
      AS h (queue, partition_key, bucket, from_seq, begun_seq, begun_to, run_from, run_to)
    LEFT JOIN LATERAL (
      SELECT r.seq, r.available_at, r.status FROM tenure.live AS r
      WHERE r.ordered AND r.queue = h.queue AND r.partition_key = h.partition_key
        AND tenure.bucket(r.partition_key) = h.bucket  -- implied: a key has one bucket; by it the index is walked
        AND r.seq >= h.from_seq
      ORDER BY r.seq LIMIT 1
    ) AS first ON true
    -- As a rule the run is over, and the first row stands behind it: then none has begun.
    CROSS JOIN LATERAL (
      SELECT EXISTS (
        SELECT FROM tenure.live AS r
        WHERE first.seq <= h.run_to  -- implied: none before the first; only spares the look
          AND r.ordered AND r.queue = h.queue AND r.partition_key = h.partition_key
          AND tenure.bucket(r.partition_key) = h.bucket  -- implied: a key has one bucket; by it the index is walked
          AND r.seq BETWEEN h.run_from AND h.run_to
          AND r.status = 'processing') AS taken
    ) AS busy
    LEFT JOIN LATERAL (
      SELECT r.seq, r.available_at, r.status FROM tenure.live AS r
      WHERE first.seq <= GREATEST(h.begun_to, h.run_to)  -- implied: none before the first; only spares the look
        AND r.ordered AND r.queue = h.queue AND r.partition_key = h.partition_key
        AND tenure.bucket(r.partition_key) = h.bucket  -- implied: a key has one bucket; by it the index is walked
        AND r.seq BETWEEN LEAST(h.begun_seq, h.run_from) AND GREATEST(h.begun_to, h.run_to)
        AND r.attempts > 0
      ORDER BY r.seq LIMIT 1
    ) AS begun ON true
  ), fresh AS (
    SELECT seen.queue, seen.partition_key,
           CASE WHEN seen.taken OR seen.begun_seq IS NOT NULL THEN seen.from_seq ELSE seen.seq END AS from_seq,
           CASE WHEN seen.taken THEN seen.old_begun_seq ELSE seen.begun_seq END AS begun_seq,
           CASE WHEN seen.taken THEN seen.old_begun_to WHEN seen.begun_seq IS NOT NULL THEN seen.begun_to END AS begun_to,
           CASE WHEN seen.taken THEN COALESCE(seen.run_from, seen.seq) END AS run_from,
           CASE WHEN seen.taken THEN COALESCE(seen.run_to, seen.seq) END AS run_to,
           CASE WHEN NOT seen.taken THEN CASE WHEN seen.blocked THEN 'infinity' ELSE GREATEST(seen.available_at, statement_timestamp()) END END AS due_at
    FROM seen WHERE seen.seq IS NOT NULL
  ), gone AS (
    DELETE FROM tenure.heads AS h
    WHERE h.ctid = ANY (ARRAY(
      SELECT (SELECT k.ctid FROM tenure.heads AS k WHERE k.queue = seen.queue AND k.partition_key = seen.partition_key LIMIT 1)
      FROM seen WHERE seen.seq IS NULL))  -- implied: Postgres deletes last, and no row that this statement has just written; spares the look
  )
  -- They are all there. Written so that each is found by its key, whatever the planner thinks of the size of heads.
  INSERT INTO tenure.heads AS h (queue, partition_key, bucket, from_seq, begun_seq, begun_to, run_from, run_to, due_at)
  SELECT f.queue, f.partition_key, tenure.bucket(f.partition_key), f.from_seq, f.begun_seq, f.begun_to, f.run_from, f.run_to,
         COALESCE(f.due_at, '-infinity')
  FROM fresh AS f
  ON CONFLICT (queue, partition_key) DO UPDATE
  SET from_seq = EXCLUDED.from_seq, begun_seq = EXCLUDED.begun_seq, begun_to = EXCLUDED.begun_to,
      run_from = EXCLUDED.run_from, run_to = EXCLUDED.run_to,
      due_at = CASE WHEN EXCLUDED.run_to IS NULL THEN EXCLUDED.due_at ELSE h.due_at END;
END
$$;

-- By key: whether a row has arrived that no claim has looked at.
CREATE INDEX arrivals_key ON tenure.arrivals (partition_key, queue, id);

-- Look at the keys of these queues where something has changed, up to 20 pages of 500 arrivals a queue. A head that another
-- claim has locked, or makes at this moment, keeps its arrivals for the next look.
CREATE OR REPLACE FUNCTION tenure.refresh_heads(of_queues text[], from_arrival bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  of_queue text;
  after bigint;
  arrived record;
  changed record;
  known record;
  seen text[];  -- the keys whose arrivals are dealt with
BEGIN
  FOREACH of_queue IN ARRAY ARRAY(
    SELECT q.queue FROM unnest(of_queues) AS q (queue)
    WHERE EXISTS (SELECT FROM tenure.arrivals AS a WHERE a.queue = q.queue AND a.id >= from_arrival)  -- implied: spares the look at the others
  ) LOOP
    after := from_arrival - 1;
    FOR page IN 1 .. 20 LOOP
      SELECT array_agg(a.id) AS ids, array_agg(a.partition_key) AS keys, array_agg(a.seq) AS seqs, max(a.id) AS last INTO arrived
      FROM (SELECT n.id, n.partition_key, n.seq FROM tenure.arrivals AS n
            WHERE n.queue = of_queue AND n.id > after
            ORDER BY n.id LIMIT 500
            FOR UPDATE SKIP LOCKED) AS a;
      EXIT WHEN arrived.last IS NULL;  -- implied: spares the rest
      SELECT array_agg(k.partition_key) AS keys, array_agg(k.seq) AS seqs INTO changed
      FROM (SELECT a.partition_key, min(a.seq) AS seq FROM unnest(arrived.keys, arrived.seqs) AS a (partition_key, seq)
            GROUP BY a.partition_key ORDER BY a.partition_key) AS k;

      SELECT array_agg(of_queue) AS queues, array_agg(c.partition_key) AS keys, array_agg(h.bucket) AS buckets,
             array_agg(LEAST(h.from_seq, c.seq)) AS froms, array_agg(h.begun_seq) AS begun, array_agg(h.begun_to) AS begun_to,
             array_agg(h.run_from) AS runs_from, array_agg(h.run_to) AS runs_to INTO known
      FROM unnest(changed.keys, changed.seqs) AS c (partition_key, seq)
      CROSS JOIN LATERAL (
        SELECT k.bucket, k.from_seq, k.begun_seq, k.begun_to, k.run_from, k.run_to FROM tenure.heads AS k
        WHERE k.queue = of_queue AND k.partition_key = c.partition_key
        LIMIT 1
        FOR UPDATE SKIP LOCKED) AS h;

      -- A statement of its own: it sees what was committed before the heads were locked.
      PERFORM tenure.look_at(known.queues, known.keys, known.buckets, known.froms, known.begun, known.begun_to,
                             known.runs_from, known.runs_to);
      seen := COALESCE(known.keys, '{}');

      -- Keys that have no head yet, unless another claim makes some of these at this moment: nobody waits for it. A key whose rows are
      -- gone needs none.
      IF cardinality(seen) < cardinality(changed.keys) THEN  -- implied: only spares the look
        WITH headless AS MATERIALIZED (
          SELECT c.partition_key, c.n, first.seq, first.status, first.available_at,
                 row_number() OVER (ORDER BY first.available_at, first.seq) - 500 AS turn
          FROM unnest(changed.keys, changed.seqs) WITH ORDINALITY AS c (partition_key, seq, n)
          LEFT JOIN LATERAL (
            SELECT r.seq, r.status, r.available_at FROM tenure.live AS r
            WHERE r.ordered AND r.queue = of_queue AND r.partition_key = c.partition_key
              AND tenure.bucket(r.partition_key) = tenure.bucket(c.partition_key)  -- implied: a key has one; lets live_heads serve
              AND r.seq >= c.seq  -- implied: one before it would be the next as well; spares the look at those gone
            ORDER BY r.seq LIMIT 1) AS first ON true
          WHERE CASE WHEN (SELECT true FROM tenure.heads AS h WHERE h.queue = of_queue AND h.partition_key = c.partition_key LIMIT 1) IS NULL
                     THEN pg_try_advisory_xact_lock('tenure.heads'::regclass::oid::int,
                                                    hashtext(of_queue) # hashtext(c.partition_key) & 255) END
        ), made AS (
          INSERT INTO tenure.heads (queue, partition_key, bucket, from_seq, run_from, run_to, due_at)
          SELECT of_queue, h.partition_key, tenure.bucket(h.partition_key), h.seq,
                 CASE WHEN h.status = 'processing' THEN h.seq END,  -- implied: a claim that meets it looks again
                 CASE WHEN h.status = 'processing' THEN h.seq END,  -- implied: as above
                 CASE WHEN (SELECT true FROM tenure.dead AS d WHERE d.queue = of_queue AND d.partition_key = h.partition_key AND d.blocks LIMIT 1)
                      THEN 'infinity' ELSE GREATEST(h.available_at, statement_timestamp() + h.turn * interval '1 microsecond') END
          FROM headless AS h
          WHERE h.seq IS NOT NULL
          ORDER BY h.n
          ON CONFLICT DO NOTHING
          RETURNING partition_key
        )
        SELECT seen || array_agg(h.partition_key) INTO seen FROM headless AS h
        WHERE h.seq IS NULL OR h.partition_key IN (SELECT m.partition_key FROM made AS m);
      END IF;

      DELETE FROM tenure.arrivals AS n
      WHERE n.queue = of_queue  -- implied: a number is given once; lets the primary key serve
        AND n.id > after AND n.id <= arrived.last  -- implied: all are there; passes what is gone
        AND n.id = ANY (ARRAY(SELECT a.id FROM unnest(arrived.ids, arrived.keys) AS a (id, partition_key)
                              WHERE (a.partition_key IN (SELECT unnest(seen))) IS TRUE));
      after := arrived.last;
    END LOOP;
  END LOOP;
END
$$;

DROP FUNCTION tenure.claim_ordered(text[], int[], int, int, text, bigint, float8, int, bigint, timestamptz);
-- Claim the next rows of up to n keys: of each a run, the rows that could run one after the other, up to `run_length`, and up to
-- `most` rows in all, shared alike by the keys that are found. A row that has begun before is a run of its own, and one with a
-- single attempt is never behind another: who dies in a run costs each of its rows one. Rows are never waited for: a key whose
-- next row is locked is passed by.
CREATE FUNCTION tenure.claim_ordered(
  of_queues text[], owned int[], n int, run_length int, most int, for_worker text, under_claim bigint, lease_seconds float8, seen_epoch int,
  from_arrival bigint, from_due timestamptz
) RETURNS TABLE (
  id uuid, kind text, queue text, partition_key text, partition_bucket int, payload text, attempts int, max_attempts int,
  available_seconds float8, lease_generation bigint, fence_token bigint, ends_seconds float8, headers text, seq bigint
) LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
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
  length int;  -- of each run
BEGIN
  PERFORM tenure.must_read_committed();
  IF EXISTS (SELECT FROM tenure.workers AS w WHERE w.id = for_worker AND (w.status <> 'alive' OR w.gone_at IS NOT NULL)) THEN
    RETURN;
  END IF;
  PERFORM tenure.refresh_heads(free_queues, from_arrival);
  moment := clock_timestamp();
  FOR turn IN 1 .. 12 LOOP
    SELECT array_agg(h.queue) AS queues, array_agg(h.partition_key) AS keys, array_agg(h.bucket) AS buckets,
           array_agg(h.from_seq) AS froms, array_agg(h.begun_seq) AS begun, array_agg(h.begun_to) AS begun_to INTO found
    FROM tenure.due_heads(free_queues, owned, missing * (1 << (turn - 1)), moment, from_due, passed) AS h;
    EXIT WHEN found.queues IS NULL;  -- implied: spares the other turns
    length := GREATEST(1, LEAST(run_length, (most - cardinality(ids)) / LEAST(missing, cardinality(found.queues))));

    -- A statement of its own: it sees what was committed before the heads were locked.
    WITH candidate AS MATERIALIZED (
      SELECT h.nth, h.queue, h.partition_key, r.id, r.seq, r.attempts, r.max_attempts,
             row_number() OVER (PARTITION BY h.nth ORDER BY r.seq) AS place
      FROM unnest(found.queues, found.keys, found.buckets, found.froms, found.begun) WITH ORDINALITY
        AS h (queue, partition_key, bucket, from_seq, begun_seq, nth)
      CROSS JOIN LATERAL (
        SELECT r.id, r.seq, r.attempts, r.max_attempts FROM tenure.live AS r
        WHERE r.ordered AND r.queue = h.queue AND r.partition_key = h.partition_key
          AND tenure.bucket(r.partition_key) = h.bucket  -- implied: a key has one; lets live_heads serve
          AND r.seq >= COALESCE(h.begun_seq, h.from_seq)
        ORDER BY r.seq LIMIT CASE WHEN h.begun_seq IS NULL THEN length ELSE 1 END) AS r
      -- A row that has begun goes first. Else a row that has arrived may go before, and no claim has looked at it: another one is about
      -- to, or there are too many for this one.
      WHERE h.begun_seq IS NOT NULL AND r.attempts > 0
         OR h.begun_seq IS NULL AND NOT EXISTS (
                        SELECT FROM tenure.arrivals AS a
                        WHERE a.partition_key = h.partition_key AND a.queue = h.queue
                          AND a.id >= from_arrival  -- implied: those before are looked at; passes what is gone
                          AND a.seq < h.from_seq)
    ), locked AS (
      SELECT r.id FROM tenure.live AS r
      WHERE r.id = ANY (ARRAY(SELECT c.id FROM candidate AS c))
        AND r.status = 'pending'
        AND r.available_at <= moment
      ORDER BY r.id
      FOR UPDATE SKIP LOCKED
    ), run AS (
      SELECT c.nth, c.queue, c.partition_key, c.id, c.seq, dense_rank() OVER (ORDER BY c.nth) AS rank
      FROM (SELECT c.nth, c.queue, c.partition_key, c.id, c.seq,
                   bool_and(c.id IN (SELECT l.id FROM locked AS l) AND (c.place = 1 OR c.attempts = 0 AND c.max_attempts > 1)) OVER upto
                     AND (c.place = 1 OR first_value(c.attempts) OVER upto = 0)
                   AS may_run
            FROM candidate AS c WINDOW upto AS (PARTITION BY c.nth ORDER BY c.seq)) AS c
      WHERE c.may_run
    ), marked AS (
      INSERT INTO tenure.heads AS h (queue, partition_key, bucket, from_seq, run_from, run_to)  -- by key, as in look_at
      SELECT r.queue, r.partition_key, tenure.bucket(r.partition_key), min(r.seq), min(r.seq), max(r.seq) FROM run AS r
      WHERE r.rank <= missing
      GROUP BY r.queue, r.partition_key
      ON CONFLICT (queue, partition_key) DO UPDATE
      SET run_from = EXCLUDED.run_from, run_to = EXCLUDED.run_to,
          from_seq = CASE WHEN h.begun_seq IS NULL THEN EXCLUDED.from_seq ELSE h.from_seq END  -- implied: only quicker next time
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
         date_part('epoch', c.available_at), c.lease_generation, c.fence_token, date_part('epoch', c.lease_expires_at), c.headers::text,
         c.seq
  FROM claimed AS c ORDER BY c.queue, c.partition_key, c.seq;
END
$$;
