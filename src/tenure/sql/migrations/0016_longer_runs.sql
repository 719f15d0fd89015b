-- Ordered keys, quicker: a claim shares its rows among the keys that it finds.
-- kind: contract

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
  length int;  -- of each run
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
    length := GREATEST(1, LEAST(run_length, (most - cardinality(ids)) / LEAST(missing, cardinality(found.queues))));

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
        ORDER BY r.seq LIMIT CASE WHEN h.begun_seq IS NULL THEN length ELSE 1 END) AS r
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
