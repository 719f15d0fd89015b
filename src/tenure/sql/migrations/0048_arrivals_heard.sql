-- Ordered keys, quicker: a claim hears of no more new keys than it takes, and looks at a key that is over once.
-- kind: expand

-- Look anew at these heads, as in 0016_longer_runs.sql. A head that goes is found by its place, if the caller has that.
DROP FUNCTION tenure.look_at(text[], text[], int[], bigint[], bigint[], bigint[], bigint[], bigint[]);
CREATE FUNCTION tenure.look_at(
  queues text[], partition_keys text[], buckets int[], from_seqs bigint[], begun_seqs bigint[], begun_tos bigint[],
  runs_from bigint[], runs_to bigint[], places tid[] DEFAULT NULL
) RETURNS void LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
  WITH seen AS MATERIALIZED (
    SELECT h.queue, h.partition_key, COALESCE(begun.seq, first.seq) AS seq, COALESCE(begun.available_at, first.available_at) AS available_at,
           begun.seq AS begun_seq, busy.taken OR COALESCE(begun.status, first.status) = 'processing' AS taken,
           h.from_seq, h.begun_seq AS old_begun_seq, h.begun_to AS old_begun_to, h.run_from, h.run_to, GREATEST(h.begun_to, h.run_to) AS begun_to,
           h.place,
           CASE WHEN first.seq IS NOT NULL THEN  -- implied: a head that goes needs no answer; spares the look
             (SELECT true FROM tenure.dead AS d WHERE d.queue = h.queue AND d.partition_key = h.partition_key AND d.blocks LIMIT 1) END AS blocked
    FROM unnest(queues, partition_keys, buckets, from_seqs, begun_seqs, begun_tos, runs_from, runs_to, places)
      AS h (queue, partition_key, bucket, from_seq, begun_seq, begun_to, run_from, run_to, place)
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
      SELECT COALESCE(seen.place, (SELECT k.ctid FROM tenure.heads AS k WHERE k.queue = seen.queue AND k.partition_key = seen.partition_key LIMIT 1))
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
      due_at = CASE WHEN EXCLUDED.run_to IS NULL THEN EXCLUDED.due_at ELSE h.due_at END
  WHERE EXCLUDED.run_to IS NULL  -- implied: like the next line, it spares the write: a key that is still taken stays as it is
     OR (EXCLUDED.from_seq, EXCLUDED.begun_seq, EXCLUDED.begun_to, EXCLUDED.run_from, EXCLUDED.run_to)
        IS DISTINCT FROM (h.from_seq, h.begun_seq, h.begun_to, h.run_from, h.run_to);  -- implied: as above
END
$$;

-- Hear of what has changed in the keys of these queues, up to 20 pages of 500 arrivals a queue. A head that another claim has
-- locked, or makes at this moment, keeps its arrivals for the next look. Of keys without a head those are told that could go on now, in
-- these buckets, up to so many, and then the rest is left to the next claim: the caller takes them, or makes their heads, before its
-- transaction ends. The heads of all others are made here.
CREATE FUNCTION tenure.hear_arrivals(of_queues text[], from_arrival bigint, owned int[], enough int)
RETURNS TABLE (queue text, partition_key text, bucket int, from_seq bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  of_queue text;
  after bigint;
  arrived record;
  changed record;
  known record;
  fresh record;
  told record;
  seen text[];  -- the keys whose arrivals are dealt with
  heard text[];  -- the keys that were told: they have no head yet, and are not told again
  missing int := enough;
BEGIN
  FOREACH of_queue IN ARRAY ARRAY(
    SELECT q.queue FROM unnest(of_queues) AS q (queue)
    WHERE EXISTS (SELECT FROM tenure.arrivals AS a WHERE a.queue = q.queue AND a.id >= from_arrival)  -- implied: spares the look at the others
  ) LOOP
    after := from_arrival - 1;
    heard := '{}';
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
             array_agg(h.run_from) AS runs_from, array_agg(h.run_to) AS runs_to, array_agg(h.place) AS places INTO known
      FROM unnest(changed.keys, changed.seqs) AS c (partition_key, seq)
      CROSS JOIN LATERAL (
        SELECT k.ctid AS place, k.bucket, k.from_seq, k.begun_seq, k.begun_to, k.run_from, k.run_to FROM tenure.heads AS k
        WHERE k.queue = of_queue AND k.partition_key = c.partition_key
        LIMIT 1
        FOR UPDATE SKIP LOCKED) AS h;

      -- A statement of its own: it sees what was committed before the heads were locked.
      PERFORM tenure.look_at(known.queues, known.keys, known.buckets, known.froms, known.begun, known.begun_to,
                             known.runs_from, known.runs_to, known.places);
      seen := COALESCE(known.keys, '{}');

      -- Keys that have no head yet, unless another claim makes some of these at this moment: nobody waits for it. Nobody makes
      -- a head without this lock.
      IF cardinality(seen) < cardinality(changed.keys) THEN  -- implied: only spares the look
        SELECT array_agg(c.partition_key) AS keys, array_agg(c.seq) AS seqs INTO fresh
        FROM unnest(changed.keys, changed.seqs) AS c (partition_key, seq)
        WHERE c.partition_key <> ALL (heard)  -- their later arrivals stay: one of them may be of a row that goes first
          AND CASE WHEN (SELECT true FROM tenure.heads AS h WHERE h.queue = of_queue AND h.partition_key = c.partition_key LIMIT 1) IS NULL
                   THEN pg_try_advisory_xact_lock('tenure.heads'::regclass::oid::int,
                                                  hashtext(of_queue) # hashtext(c.partition_key) & 255) END;
        -- A statement of its own: it sees the heads that were made before the locks. A key whose rows are gone needs none.
        WITH headless AS MATERIALIZED (
          SELECT c.partition_key, tenure.bucket(c.partition_key) AS bucket, c.n, first.seq, first.status, first.available_at,
                 CASE WHEN first.seq IS NOT NULL THEN  -- implied: spares the look
                   (SELECT true FROM tenure.dead AS d WHERE d.queue = of_queue AND d.partition_key = c.partition_key AND d.blocks LIMIT 1) END AS blocked,
                 row_number() OVER (ORDER BY first.available_at, first.seq) - 500 AS turn
          FROM unnest(fresh.keys, fresh.seqs) WITH ORDINALITY AS c (partition_key, seq, n)
          LEFT JOIN LATERAL (
            SELECT r.seq, r.status, r.available_at FROM tenure.live AS r
            WHERE r.ordered AND r.queue = of_queue AND r.partition_key = c.partition_key
              AND tenure.bucket(r.partition_key) = tenure.bucket(c.partition_key)  -- implied: a key has one; lets live_heads serve
              AND r.seq >= c.seq  -- implied: one before it would be the next as well; spares the look at those gone
            ORDER BY r.seq LIMIT 1) AS first ON true
          WHERE (SELECT true FROM tenure.heads AS h WHERE h.queue = of_queue AND h.partition_key = c.partition_key LIMIT 1) IS NULL
        ), ready AS MATERIALIZED (
          SELECT h.partition_key, h.bucket, h.seq, h.turn FROM headless AS h
          WHERE h.status = 'pending'  -- implied: the caller looks again, and makes the head; this and the next two spare it
            AND h.available_at <= statement_timestamp()
            AND h.blocked IS NULL
            AND (owned IS NULL OR h.bucket = ANY (owned))
          ORDER BY h.turn LIMIT missing
        ), made AS (
          INSERT INTO tenure.heads (queue, partition_key, bucket, from_seq, run_from, run_to, due_at)
          SELECT of_queue, h.partition_key, h.bucket, h.seq,
                 CASE WHEN h.status = 'processing' THEN h.seq END,  -- implied: a claim that meets it looks again
                 CASE WHEN h.status = 'processing' THEN h.seq END,  -- implied: as above
                 CASE WHEN h.blocked THEN 'infinity'
                      ELSE GREATEST(h.available_at, statement_timestamp() + h.turn * interval '1 microsecond') END
          FROM headless AS h
          WHERE h.seq IS NOT NULL
            AND h.partition_key NOT IN (SELECT r.partition_key FROM ready AS r)
          ORDER BY h.n
          ON CONFLICT DO NOTHING
          RETURNING partition_key
        )
        SELECT (SELECT array_agg(h.partition_key) FROM headless AS h
                WHERE h.seq IS NULL OR h.partition_key IN (SELECT m.partition_key FROM made AS m)) AS made,
               (SELECT array_agg(r.partition_key ORDER BY r.turn) FROM ready AS r) AS keys,
               (SELECT array_agg(r.bucket ORDER BY r.turn) FROM ready AS r) AS buckets,
               (SELECT array_agg(r.seq ORDER BY r.turn) FROM ready AS r) AS froms INTO told;
        RETURN QUERY SELECT of_queue, r.partition_key, r.bucket, r.from_seq FROM unnest(told.keys, told.buckets, told.froms) AS r (partition_key, bucket, from_seq);
        seen := seen || told.made || told.keys;
        heard := heard || told.keys;
        missing := missing - COALESCE(cardinality(told.keys), 0);
      END IF;

      DELETE FROM tenure.arrivals AS n
      WHERE n.queue = of_queue  -- implied: a number is given once; lets the primary key serve
        AND n.id > after AND n.id <= arrived.last  -- implied: all are there; passes what is gone
        AND n.id = ANY (ARRAY(SELECT a.id FROM unnest(arrived.ids, arrived.keys) AS a (id, partition_key)
                              WHERE (a.partition_key IN (SELECT unnest(seen))) IS TRUE));
      after := arrived.last;
      EXIT WHEN missing <= 0;
    END LOOP;
  END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION tenure.refresh_heads(of_queues text[], from_arrival bigint) RETURNS void LANGUAGE sql AS $$
  SELECT FROM tenure.hear_arrivals(of_queues, from_arrival, '{}', NULL)
$$;
