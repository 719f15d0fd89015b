-- Ordered keys, quicker: a key that is new is taken at once, without a head that is made, found and written again.
-- kind: expand

-- As in 0016_longer_runs.sql, and the keys that are new among those found.
CREATE OR REPLACE FUNCTION tenure.claim_ordered(
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
  before timestamptz := statement_timestamp() - interval '500 microseconds';  -- no head that is made now is due before it
  moment timestamptz;
  fresh record;  -- keys that have no head: each is taken or gets one
  found record;
  taken record;
  passed text[] := '{}';
  ids uuid[] := '{}';
  missing int := n;
  length int;  -- of each run
  room int;
BEGIN
  PERFORM tenure.must_read_committed();
  IF EXISTS (SELECT FROM tenure.workers AS w WHERE w.id = for_worker AND (w.status <> 'alive' OR w.gone_at IS NOT NULL)) THEN
    RETURN;
  END IF;
  SELECT array_agg(k.queue) AS queues, array_agg(k.partition_key) AS keys, array_agg(k.bucket) AS buckets, array_agg(k.from_seq) AS froms,
         array_agg(NULL::bigint) AS nulls INTO fresh
  FROM tenure.hear_arrivals(free_queues, from_arrival, owned, n) AS k;
  moment := clock_timestamp();
  FOR turn IN 1 .. 12 LOOP
    SELECT array_agg(h.queue) AS queues, array_agg(h.partition_key) AS keys, array_agg(h.bucket) AS buckets,
           array_agg(h.from_seq) AS froms, array_agg(h.begun_seq) AS begun, array_agg(h.begun_to) AS begun_to INTO found
    FROM tenure.due_heads(free_queues, owned, missing * (1 << (turn - 1)),
                          CASE WHEN turn = 1 AND fresh.queues IS NOT NULL THEN before ELSE moment END, from_due, passed) AS h;
    IF turn = 1 AND fresh.queues IS NOT NULL THEN
      -- After those that have been due for longer, and before the heads that were made or looked at just now.
      room := missing - COALESCE(cardinality(found.queues), 0);
      PERFORM tenure.look_at(fresh.queues[room + 1:], fresh.keys[room + 1:], fresh.buckets[room + 1:], fresh.froms[room + 1:], fresh.nulls[room + 1:],
                             fresh.nulls[room + 1:], fresh.nulls[room + 1:], fresh.nulls[room + 1:]);
      found.queues := found.queues || fresh.queues[:room];
      found.keys := found.keys || fresh.keys[:room];
      found.buckets := found.buckets || fresh.buckets[:room];
      found.froms := found.froms || fresh.froms[:room];
      found.begun := found.begun || fresh.nulls[:room];
      found.begun_to := found.begun_to || fresh.nulls[:room];
    END IF;
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
      INSERT INTO tenure.heads AS h (queue, partition_key, bucket, from_seq, run_from, run_to, due_at)  -- by key, as in look_at
      SELECT r.queue, r.partition_key, tenure.bucket(r.partition_key), min(r.seq), min(r.seq), max(r.seq), moment FROM run AS r
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
