-- Limits: how many rows of a queue, and of each key in it, run at once, how many start in a second, and whether any may start.
-- kind: expand

-- A queue has a row here once somebody has set something. NULL: no such limit.
CREATE TABLE tenure.queues (
  queue           text        NOT NULL PRIMARY KEY,
  paused          boolean     NOT NULL DEFAULT false,
  max_running     int         CHECK (max_running > 0),
  max_per_key     int         CHECK (max_per_key > 0),
  rate_per_second float8      CHECK (rate_per_second > 0 AND rate_per_second < 'infinity'),
  burst           int         CHECK (burst > 0),
  tokens          float8,      -- how many rows could start at refilled_at; NULL: as many as burst says
  refilled_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- What the plain claims look at: only claim_limited takes rows of such a queue, whatever a worker has heard of it.
  limited         boolean     NOT NULL GENERATED ALWAYS AS (paused OR num_nonnulls(max_running, max_per_key, rate_per_second) > 0) STORED,
  CONSTRAINT queues_rate_with_burst CHECK ((rate_per_second IS NULL) = (burst IS NULL))
) WITH (fillfactor = 50);

-- Who runs under a limit: a slot is given once, which the primary key promises, and given back by whatever ends the attempt.
CREATE TABLE tenure.permits (
  queue         text NOT NULL,
  partition_key text NOT NULL,  -- '' stands for the queue as a whole: no key is empty
  slot          int  NOT NULL,
  row_id        uuid NOT NULL,
  PRIMARY KEY (queue, partition_key, slot)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX permits_row ON tenure.permits (row_id);

-- How many rows may start now: `rate_per_second` more every second, never more than `burst` at once.
CREATE FUNCTION tenure.refilled(tokens float8, rate_per_second float8, burst int, passed interval) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
  SELECT LEAST(tokens + rate_per_second * GREATEST(0, date_part('epoch', passed)), burst)
$$;

-- The priorities of a queue that hold unordered rows, most urgent first: one probe each.
CREATE FUNCTION tenure.priorities(of_queue text) RETURNS SETOF smallint LANGUAGE sql STABLE AS $$
  WITH RECURSIVE lane AS (
    (SELECT i.priority FROM tenure.live AS i
     WHERE NOT i.ordered  -- implied: whoever walks a lane asks again; this one lets live_due serve
       AND i.queue = of_queue  -- implied: as above, a lane too many is empty
     ORDER BY i.priority DESC LIMIT 1)
    UNION ALL
    SELECT further.priority FROM lane CROSS JOIN LATERAL (
      SELECT i.priority FROM tenure.live AS i
      WHERE NOT i.ordered  -- implied: as above
        AND i.queue = of_queue  -- implied: as above
        AND i.priority < lane.priority
      ORDER BY i.priority DESC LIMIT 1) AS further
  )
  SELECT lane.priority FROM lane
$$;

-- Up to n unordered rows of a queue that could run now, the most urgent first, then what has been due longest.
CREATE FUNCTION tenure.due_by_time(of_queue text, n int) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
  SELECT due.id FROM tenure.priorities(of_queue) AS lane (priority)
  CROSS JOIN LATERAL (
    SELECT i.id FROM tenure.live AS i
    WHERE NOT i.ordered
      AND i.queue = of_queue AND i.priority = lane.priority
      AND i.available_at <= statement_timestamp()
      AND i.status = 'pending'
    ORDER BY i.available_at LIMIT n) AS due
  LIMIT n
$$;

-- The same out of all buckets, four a bucket, from a bucket on: what a key with a long backlog cannot hide.
CREATE FUNCTION tenure.due_by_bucket(of_queue text, from_bucket int, n int) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
  SELECT due.id FROM tenure.priorities(of_queue) AS lane (priority)
  CROSS JOIN generate_series(from_bucket, from_bucket + 1023) AS turn (bucket)
  CROSS JOIN LATERAL (
    SELECT i.id FROM tenure.live AS i
    WHERE NOT i.ordered
      AND i.queue = of_queue AND i.priority = lane.priority
      AND tenure.bucket(COALESCE(i.partition_key, i.id::text)) = turn.bucket & 1023
      AND i.available_at <= statement_timestamp()
      AND i.status = 'pending'
    ORDER BY i.available_at LIMIT 4) AS due
  LIMIT n
$$;

-- Up to n heads of ordered keys of a queue that could run now, from a bucket on: one probe a key, 256 keys at most.
CREATE FUNCTION tenure.free_heads(of_queue text, from_bucket int, n int) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
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
  WHERE head.status = 'pending'  -- implied: a processing ordered row has its key taken, by the primary key of keys
    AND head.available_at <= statement_timestamp()
    AND NOT EXISTS (SELECT FROM tenure.keys AS k WHERE k.queue = of_queue AND k.partition_key = head.partition_key)
  LIMIT n
$$;

-- Which of these rows may start: the n first of them whose key has a slot left. A row without a key has no such limit.
CREATE FUNCTION tenure.admitted(of_queue text, candidates uuid[], slots_per_key int, n int) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
  SELECT c.id
  FROM (SELECT i.id, i.priority, i.available_at, i.seq, i.partition_key,
               row_number() OVER (PARTITION BY i.partition_key ORDER BY i.priority DESC, i.available_at, i.seq) AS nth
        FROM tenure.live AS i WHERE i.id = ANY (candidates)) AS c
  WHERE slots_per_key IS NULL OR c.partition_key IS NULL
     OR c.nth + (SELECT count(*) FROM tenure.permits AS p WHERE p.queue = of_queue AND p.partition_key = c.partition_key) <= slots_per_key
  ORDER BY c.priority DESC, c.available_at, c.seq
  LIMIT n
$$;

-- Give each of these rows a slot of the queue and one of its key, where those are limited: the lowest that are free.
CREATE FUNCTION tenure.give_permits(of_queue text, rows uuid[], slots_in_all int, slots_per_key int) RETURNS void LANGUAGE sql VOLATILE AS $$
  INSERT INTO tenure.permits (queue, partition_key, slot, row_id)
  SELECT of_queue, scope.partition_key, given.slot, given.id
  FROM (
    SELECT s.partition_key, s.slots, array_agg(i.id) AS ids
    FROM tenure.live AS i
    CROSS JOIN LATERAL (VALUES ('', slots_in_all), (i.partition_key, slots_per_key)) AS s (partition_key, slots)
    WHERE i.id = ANY (rows)
      AND s.slots IS NOT NULL
      AND s.partition_key IS NOT NULL
    GROUP BY s.partition_key, s.slots
  ) AS scope
  CROSS JOIN LATERAL unnest(scope.ids, ARRAY(
    SELECT generate_series(1, scope.slots)
    EXCEPT
    SELECT p.slot FROM tenure.permits AS p WHERE p.queue = of_queue AND p.partition_key = scope.partition_key
    ORDER BY 1
    LIMIT cardinality(scope.ids)
  )) AS given (id, slot)
$$;

-- Claim from one queue within its limits, ordered rows and others alike. The queue's row is locked first, until the
-- transaction ends: its claims go one by one, and what one of them counts can only shrink. Rows are never waited for.
-- With a limit per key it looks at the 256 rows due longest and, if full keys hide what could run, at 512 more out of all
-- buckets, from a random one on: a full key may hide rows of its own bucket, whatever its backlog, and no others.
CREATE FUNCTION tenure.claim_limited(
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
  heads := ARRAY(SELECT tenure.free_heads(of_queue, from_bucket, look)) || ARRAY(SELECT tenure.free_heads(of_queue, 0, look));
  chosen := ARRAY(SELECT tenure.admitted(of_queue, unordered || heads, limits.max_per_key, room));
  IF cardinality(chosen) < room AND cardinality(unordered) = look THEN
    unordered := unordered || ARRAY(SELECT tenure.due_by_bucket(of_queue, from_bucket, 512));
    chosen := ARRAY(SELECT tenure.admitted(of_queue, unordered || heads, limits.max_per_key, room));
  END IF;

  WITH locked AS (
    SELECT i.id, i.ordered, i.partition_key FROM tenure.live AS i
    WHERE i.id = ANY (chosen)
      AND i.status = 'pending'
      AND i.available_at <= statement_timestamp()
    ORDER BY i.id
    FOR UPDATE SKIP LOCKED
  ), keyed AS (
    INSERT INTO tenure.keys (queue, partition_key, row_id)
    SELECT of_queue, locked.partition_key, locked.id FROM locked WHERE locked.ordered ORDER BY locked.partition_key
    ON CONFLICT DO NOTHING
    RETURNING row_id
  )
  SELECT array_agg(locked.id) INTO taken FROM locked
  WHERE NOT locked.ordered OR locked.id IN (SELECT row_id FROM keyed);
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
