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
  begun_seq     bigint,                -- this row has begun and is not over: no other one starts before it ...
  begun_to      bigint,                -- ... and others that have begun stand between here and there
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
CREATE TRIGGER live_change AFTER UPDATE OF available_at, queue, partition_key, ordered ON tenure.live
  FOR EACH ROW WHEN (NEW.ordered) EXECUTE FUNCTION tenure.note_change();

-- Look anew at these heads, which the caller has locked: is the key still taken, which row is its next, when is it due?
--
--                 claimed                          every row of the run is over
--     free ─────────────────────▶ taken ──────────────────────────────────────────▶ free, or gone with its last row
--
-- Rows that have begun (attempts > 0) go first, whatever came since with an earlier number: a row of a transaction that
-- was open for long. Only rows of the last run, and those known before it, can have begun.
CREATE FUNCTION tenure.look_at(
  queues text[], partition_keys text[], buckets int[], from_seqs bigint[], begun_seqs bigint[], begun_tos bigint[],
  runs_from bigint[], runs_to bigint[]
) RETURNS void LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  WITH seen AS MATERIALIZED (
    SELECT h.queue, h.partition_key, next.seq, next.available_at, begun.seq AS begun_seq,
           busy.taken OR COALESCE(next.status = 'processing', false) AS taken, h.from_seq, h.begun_seq AS old_begun_seq, h.begun_to AS old_begun_to, h.run_from, h.run_to,
           GREATEST(h.begun_to, h.run_to) AS begun_to,
           EXISTS (SELECT FROM tenure.dead AS d WHERE d.queue = h.queue AND d.partition_key = h.partition_key AND d.blocks) AS blocked
    FROM unnest(queues, partition_keys, buckets, from_seqs, begun_seqs, begun_tos, runs_from, runs_to)
      AS h (queue, partition_key, bucket, from_seq, begun_seq, begun_to, run_from, run_to)
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
                AND r.seq BETWEEN LEAST(h.begun_seq, h.run_from) AND GREATEST(h.begun_to, h.run_to)
                AND r.attempts > 0
              ORDER BY r.seq LIMIT 1) AS seq
    ) AS begun
    LEFT JOIN LATERAL (
      SELECT r.seq, r.available_at, r.status FROM tenure.live AS r
      WHERE r.ordered AND r.queue = h.queue AND tenure.bucket(r.partition_key) = h.bucket AND r.partition_key = h.partition_key
        AND r.seq >= COALESCE(begun.seq, h.from_seq)
      ORDER BY r.seq LIMIT 1
    ) AS next ON true
  ), fresh AS (
    SELECT seen.queue, seen.partition_key,
           CASE WHEN seen.taken OR seen.begun_seq IS NOT NULL THEN seen.from_seq ELSE seen.seq END AS from_seq,
           CASE WHEN seen.taken THEN seen.old_begun_seq ELSE seen.begun_seq END AS begun_seq,
           CASE WHEN seen.taken THEN seen.old_begun_to WHEN seen.begun_seq IS NOT NULL THEN seen.begun_to END AS begun_to,
           CASE WHEN seen.taken THEN COALESCE(seen.run_from, seen.seq) END AS run_from,
           CASE WHEN seen.taken THEN COALESCE(seen.run_to, seen.seq) END AS run_to,
           CASE WHEN NOT seen.taken THEN CASE WHEN seen.blocked THEN 'infinity' ELSE seen.available_at END END AS due_at
    FROM seen WHERE seen.seq IS NOT NULL
  ), gone AS (
    DELETE FROM tenure.heads AS h USING seen
    WHERE h.queue = seen.queue AND h.partition_key = seen.partition_key
      AND seen.seq IS NULL
  )
  UPDATE tenure.heads AS h
  SET from_seq = f.from_seq, begun_seq = f.begun_seq, begun_to = f.begun_to, run_from = f.run_from, run_to = f.run_to, due_at = COALESCE(f.due_at, h.due_at)
  FROM fresh AS f
  WHERE h.queue = f.queue AND h.partition_key = f.partition_key
    AND (h.from_seq, h.begun_seq, h.begun_to, h.run_from, h.run_to, h.due_at)  -- implied: spares the write
        IS DISTINCT FROM (f.from_seq, f.begun_seq, f.begun_to, f.run_from, f.run_to, COALESCE(f.due_at, h.due_at));
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

-- From the first design: an arrival for each key brings its head into being at the first claim; keys in flight are taken,
-- keys that waited for an operator are blocked by the row they waited for.
UPDATE tenure.dead AS d SET blocks = true FROM tenure.keys AS k WHERE k.row_id = d.id;
INSERT INTO tenure.heads (queue, partition_key, bucket, from_seq, run_from, run_to, begun_seq, begun_to)
SELECT i.queue, i.partition_key, tenure.bucket(i.partition_key), min(i.seq),
       min(i.seq) FILTER (WHERE i.status = 'processing'), min(i.seq) FILTER (WHERE i.status = 'processing'), min(i.seq), max(i.seq)
FROM tenure.live AS i
WHERE i.ordered AND i.attempts > 0
GROUP BY i.queue, i.partition_key;
INSERT INTO tenure.arrivals (queue, partition_key, seq)
SELECT i.queue, i.partition_key, min(i.seq) FROM tenure.live AS i WHERE i.ordered GROUP BY i.queue, i.partition_key;
DROP TABLE tenure.keys;
