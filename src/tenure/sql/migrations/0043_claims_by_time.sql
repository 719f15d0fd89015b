-- Unordered rows are claimed by time alone: an index less for each row that comes in.
-- kind: expand

-- Workers have claimed them by time, whatever the bucket, since 0013_claims.sql: only order needs an owner. Who asks for a key goes by
-- key; who asks for a bucket walks from the newest row, so far as a question goes.
DROP INDEX tenure.live_ready;

-- Live rows of a queue, of a key, or due (or not yet due), whichever is given: at most so many, without a look at the others. A row
-- without a key has its id for one.
CREATE FUNCTION tenure.near(of_queue text, of_key text, due boolean, most int) RETURNS SETOF uuid LANGUAGE plpgsql STABLE AS $$
DECLARE
  since timestamptz := CASE WHEN due THEN '-infinity' WHEN NOT due THEN statement_timestamp() ELSE '-infinity' END;
  until timestamptz := CASE WHEN due THEN statement_timestamp() ELSE 'infinity' END;
BEGIN
  IF of_key IS NULL THEN
    RETURN QUERY SELECT r.id FROM tenure.lanes() AS lane CROSS JOIN LATERAL (
      SELECT i.id FROM tenure.live AS i
      WHERE NOT i.ordered AND i.seq < 9223372036854775807 AND i.queue = lane.queue AND i.priority = lane.priority
        AND i.available_at >= since AND i.available_at <= until
      ORDER BY i.available_at LIMIT most) AS r
    WHERE of_queue IS NULL OR lane.queue = of_queue
    LIMIT most;
  ELSE
    RETURN QUERY SELECT r.id FROM (SELECT DISTINCT lane.queue FROM tenure.lanes() AS lane) AS lane CROSS JOIN LATERAL (
      SELECT i.id FROM tenure.live AS i
      WHERE NOT i.ordered AND i.partition_key = of_key AND i.queue = lane.queue
      LIMIT most) AS r
    WHERE of_queue IS NULL OR lane.queue = of_queue
    LIMIT most;
    IF of_key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
      RETURN QUERY SELECT i.id FROM tenure.live AS i WHERE i.id = of_key::uuid AND i.partition_key IS NULL;
    END IF;
  END IF;
  RETURN QUERY SELECT r.id FROM tenure.ordered_queues() AS o CROSS JOIN LATERAL (
    SELECT i.id FROM tenure.live AS i
    WHERE i.ordered AND i.queue = o.queue
      AND (of_key IS NULL OR tenure.bucket(i.partition_key) = tenure.bucket(of_key) AND i.partition_key = of_key)
    LIMIT most) AS r
  WHERE of_queue IS NULL OR o.queue = of_queue
  LIMIT most;
END
$$;

-- As in 0007_finding.sql: a list of the live rows of a key, and none of those of a bucket.
CREATE OR REPLACE FUNCTION tenure.search(
  filter jsonb, before uuid, n int, looks int, seconds float8, thorough boolean, in_part boolean
) RETURNS TABLE (id uuid, state text, searched int, next uuid) LANGUAGE plpgsql STABLE
  SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
  SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
  began timestamptz;
  moment timestamptz := statement_timestamp();
  f record;
  of_ids uuid[];      -- only these, wherever they stand
  of_live uuid[];     -- of the live rows only these; NULL: all
  of_dead uuid[];     -- of the dead ones
  cut boolean := false;
  most int;
  aged boolean;       -- ages are asked for, which a part of the rows says nothing about
  lowest uuid;
  seen record;
  found int := 0;
BEGIN
  SELECT g.places, g.states, g.kind, g.kind_is, g.queue, g.queue_is, g.key, g.key_is, g.worker, g.error, g.names, g.texts, g.attempts_from,
         g.attempts_to, g.older_seconds, g.newer_seconds, g.ids, g.idempotency_key, g.fingerprint, g.ordered, g.bucket,
         moment - g.older_seconds * interval '1 second' AS until, moment - g.newer_seconds * interval '1 second' AS since,
         'runnable' = ANY (g.states) AS runnable, 'scheduled' = ANY (g.states) AS scheduled,
         CASE WHEN NOT g.states && ARRAY['pending', 'processing', 'scheduled'] THEN true  -- implied: only quicker, what a row is is asked of each below
              WHEN NOT g.states && ARRAY['pending', 'processing', 'runnable'] THEN false END AS due  -- implied: only quicker, what a row is is asked of each below
  INTO f
  FROM jsonb_to_record(filter) AS g (
    places text[], states text[], kind text, kind_is text, queue text, queue_is text, key text, key_is text, worker text, error text, names text[],
    texts text[], attempts_from int, attempts_to int, older_seconds float8, newer_seconds float8, ids uuid[], idempotency_key text,
    fingerprint text, ordered boolean, bucket int);

  -- An id is as old as its row, except for those of a long COPY: their rows were created when it began. None lasts for a day.
  lowest := tenure.id_at(f.since - interval '1 minute');
  before := LEAST(before, tenure.id_at(f.until + interval '1 day'));
  aged := f.since IS NOT NULL OR f.until IS NOT NULL;
  of_ids := f.ids;
  IF f.idempotency_key IS NOT NULL THEN  -- implied: only quicker, what a row is is asked of each below
    of_ids := ARRAY(SELECT k.row_id FROM tenure.idempotency AS k WHERE k.key = f.idempotency_key);  -- implied: only quicker, what a row is is asked of each below
  END IF;
  IF of_ids IS NULL AND 'live' = ANY (f.places) THEN  -- implied: only quicker, what a row is is asked of each below
    IF f.worker IS NOT NULL AND NOT 'processing' = ANY (f.states) THEN  -- implied: only quicker, a row that waits has no worker
      of_live := '{}';
    ELSIF NOT thorough AND (f.worker IS NOT NULL OR NOT f.states && ARRAY['pending', 'runnable', 'scheduled']) THEN  -- implied: only quicker, what a row is is asked of each below
      of_live := ARRAY(SELECT tenure.seen_held());
    ELSIF COALESCE(f.queue_is, f.key_is) IS NOT NULL OR f.due IS NOT NULL THEN  -- implied: only quicker, what a row is is asked of each below
      most := GREATEST(n + 1, 5000);  -- implied: only quicker, a list that is full is not relied on
      of_live := ARRAY(SELECT tenure.near(f.queue_is, f.key_is, f.due, most) LIMIT most);
      IF cardinality(of_live) >= most THEN  -- many, so that a walk from the newest soon meets some
        cut := in_part AND NOT aged;
        of_live := CASE WHEN cut THEN of_live END;  -- implied: only quicker, without a list all are walked
      END IF;
    END IF;
  END IF;
  IF of_ids IS NULL AND 'dead' = ANY (f.places) AND COALESCE(f.fingerprint, f.key_is) IS NOT NULL THEN  -- implied: only quicker, what a row is is asked of each below
    of_dead := ARRAY(
      SELECT d.id FROM tenure.dead AS d
      WHERE (f.fingerprint IS NULL OR d.fingerprint = f.fingerprint)
        AND (f.key_is IS NULL OR d.partition_key = f.key_is)
        AND (before IS NULL OR d.id < before)
        AND (lowest IS NULL OR d.id >= lowest)  -- implied: only quicker, older ones come last in the list
      ORDER BY d.id DESC LIMIT COALESCE(looks, n + 1));  -- implied: only sooner, a count that reaches n says so itself
    cut := cut OR COALESCE(looks IS NULL AND cardinality(of_dead) > n, false);
  ELSIF of_ids IS NULL AND NOT aged AND in_part AND f.places = ARRAY['dead'] AND f.states IS NOT NULL THEN  -- implied: only quicker, what a row is is asked of each below
    of_dead := ARRAY(
      SELECT d.id FROM tenure.dead AS d
      WHERE d.status = ANY (f.states)
        AND (f.kind_is IS NULL OR d.kind = f.kind_is)
      LIMIT COALESCE(n, 10000) + 1);
    cut := cut OR cardinality(of_dead) > COALESCE(n, 10000);
  END IF;
  began := clock_timestamp();  -- implied: how long it may look is patience: what is found is the same

  FOR seen IN
    SELECT walk.id, walk.matches, walk.state, walk.nth, walk.further IS NULL AS last
    FROM (
      SELECT looked.id, looked.matches, looked.state,
             row_number() OVER (ORDER BY looked.id DESC) AS nth, lead(looked.id) OVER (ORDER BY looked.id DESC) AS further
      FROM (
        SELECT i.id,
               CASE WHEN i.status = 'pending' THEN CASE WHEN i.available_at > moment THEN 'scheduled' ELSE 'runnable' END ELSE i.status END AS state,
               (f.states IS NULL OR i.status = ANY (f.states)
                OR i.status = 'pending' AND (f.runnable AND i.available_at <= moment OR f.scheduled AND i.available_at > moment))  -- implied: no row is due at the very microsecond in which it is asked for
               AND (f.ids IS NULL OR i.id = ANY (f.ids))
               AND (f.kind IS NULL OR i.kind LIKE f.kind)
               AND (f.queue IS NULL OR i.queue LIKE f.queue)
               AND (f.key IS NULL OR COALESCE(i.partition_key, i.id::text) LIKE f.key)
               AND (f.worker IS NULL OR i.worker LIKE f.worker)
               AND (f.attempts_from IS NULL OR i.attempts BETWEEN f.attempts_from AND f.attempts_to)
               AND (f.until IS NULL OR i.created_at < f.until)
               AND (f.since IS NULL OR i.created_at > f.since)
               AND (f.ordered IS NULL OR i.ordered = f.ordered)
               AND (f.idempotency_key IS NULL OR i.idempotency_key = f.idempotency_key)  -- implied: only the row of that key is looked at
               AND (f.bucket IS NULL OR tenure.bucket(COALESCE(i.partition_key, i.id::text)) = f.bucket)
               AND (f.names IS NULL OR NOT EXISTS (
                 SELECT FROM unnest(f.names, f.texts) AS wanted (name, value)
                 WHERE i.payload #>> string_to_array(wanted.name, '.') IS DISTINCT FROM wanted.value))
               AND (f.error IS NULL OR i.last_error COLLATE "C" ILIKE f.error)
               AND (f.fingerprint IS NULL OR i.fingerprint = f.fingerprint)
               AS matches
        FROM (
          SELECT 'live' AS place, l.id, l.status, l.kind, l.queue, l.partition_key, l.claimed_by AS worker, l.attempts, l.created_at,
                 l.available_at, l.ordered, l.idempotency_key, l.payload, l.last_error,
                 CASE WHEN l.last_error IS NOT NULL THEN tenure.fingerprint(l.last_error) END AS fingerprint
          FROM tenure.live AS l
          UNION ALL
          SELECT 'dead', d.id, d.status, d.kind, d.queue, d.partition_key, d.finished_by, d.attempts, d.created_at,
                 d.available_at, d.ordered, d.idempotency_key, d.payload, d.last_error, d.fingerprint
          FROM tenure.dead AS d
          UNION ALL
          SELECT 'archive', a.id, 'completed', a.kind, a.queue, a.partition_key, a.finished_by, a.attempts, a.created_at,
                 a.available_at, a.ordered, a.idempotency_key, a.payload, a.last_error,
                 CASE WHEN a.last_error IS NOT NULL THEN tenure.fingerprint(a.last_error) END
          FROM tenure.archive AS a
        ) AS i
        WHERE i.place = ANY (f.places)
          AND (before IS NULL OR i.id < before)
          AND (lowest IS NULL OR i.id >= lowest)  -- implied: only quicker, what a row is is asked of each above
          AND (of_ids IS NULL OR i.id = ANY (of_ids))  -- implied: only quicker, what a row is is asked of each above
          AND (of_live IS NULL OR i.place <> 'live' OR i.id = ANY (of_live))  -- implied: only quicker, what a row is is asked of each above
          AND (of_dead IS NULL OR i.place <> 'dead' OR i.id = ANY (of_dead))  -- implied: only quicker, what a row is is asked of each above
        ORDER BY i.id DESC
        LIMIT looks
      ) AS looked
    ) AS walk
    WHERE walk.matches OR walk.nth % 50 = 0 OR walk.further IS NULL  -- implied: only quicker, a row that does not match is passed over below
  LOOP
    searched := seen.nth;
    next := CASE WHEN cut OR NOT seen.last OR seen.nth >= looks THEN seen.id END;
    IF seen.matches THEN
      id := seen.id;
      state := seen.state;
      found := found + 1;
      RETURN NEXT;
    END IF;
    EXIT WHEN found >= n OR seen.nth % 50 = 0 AND extract(epoch FROM clock_timestamp() - began) > seconds;
  END LOOP;
  id := NULL;
  state := NULL;
  searched := COALESCE(searched, 0);
  RETURN NEXT;
END
$$;
DROP FUNCTION tenure.near(text, int, boolean, int);
