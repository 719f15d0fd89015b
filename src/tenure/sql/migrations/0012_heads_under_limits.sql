-- What else looked at taken keys: claims under limits, and what people are shown.
-- kind: contract

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
  IF limits.refilled_at > moment THEN  -- the clock was set back: what it earns counts from here
    UPDATE tenure.queues AS q SET refilled_at = moment WHERE q.queue = of_queue;
    limits.refilled_at := moment;
  END IF;
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
