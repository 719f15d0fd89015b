-- One row at the price of one row: functions without arrays, and notes that say what kind of row came.
-- kind: expand

CREATE OR REPLACE FUNCTION tenure.note_arrivals() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  in_order boolean;
  under_limits boolean;
BEGIN
  SELECT EXISTS (SELECT FROM arrived AS a WHERE a.ordered), EXISTS (SELECT FROM tenure.queues AS q WHERE q.max_per_key IS NOT NULL)  -- implied: spares the others the look
  INTO in_order, under_limits;
  IF in_order THEN
    INSERT INTO tenure.arrivals (queue, partition_key, seq)
    SELECT a.queue, a.partition_key, min(a.seq) FROM arrived AS a
    WHERE a.ordered AND a.partition_key IS NOT NULL  -- implied: live_sane refuses a row without one
    GROUP BY a.queue, a.partition_key;
  END IF;
  IF under_limits THEN
    INSERT INTO tenure.lane_arrivals (queue, partition_key, priority, available_at)
    SELECT a.queue, COALESCE(a.partition_key, ''), a.priority, min(a.available_at) FROM arrived AS a
    JOIN tenure.queues AS q ON q.queue = a.queue
    WHERE q.max_per_key IS NOT NULL  -- implied: an arrival too many is no harm
      AND NOT a.ordered  -- implied: as above
    GROUP BY a.queue, COALESCE(a.partition_key, ''), a.priority;
  END IF;
  RETURN NULL;
END
$$;

-- Wake whoever sleeps: "517 default" is for the owner of bucket 517, "* default" for everybody who serves the queue. Zeros before the
-- number say what kind of row came: "0517 default" an unordered one, "00517 default" an ordered one. A worker that does not know of the
-- zeros reads the number and looks for both.
CREATE FUNCTION tenure.note(queue text, bucket int, ordered boolean) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT COALESCE(CASE WHEN NOT ordered THEN '0' WHEN ordered THEN '00' ELSE '' END || bucket, '*') || ' ' || queue
$$;

ALTER TABLE tenure.wakes ADD COLUMN ordered boolean;
CREATE OR REPLACE FUNCTION tenure.wake_at_commit() RETURNS trigger LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  DELETE FROM tenure.wakes AS w WHERE w.id = NEW.id;  -- implied: nobody sees the rows of another transaction, and those of one go together
  IF current_query() !~* 'prepare\s+transaction' THEN
    PERFORM pg_notify(tenure.channel(), tenure.note(NEW.queue, NEW.bucket, NEW.ordered));
  END IF;
  RETURN NULL;
END
$$;

-- A note of latency only: what nobody hears is found by polling. SET tenure_inbox.notify = off silences a producer. A transaction that
-- has notified cannot be prepared: where there are such, the note waits for the commit.
CREATE FUNCTION tenure.wake_for(queue text, bucket int, ordered boolean) RETURNS void LANGUAGE plpgsql VOLATILE
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF current_setting('max_prepared_transactions') = '0' THEN
    PERFORM pg_notify(tenure.channel(), tenure.note(queue, bucket, ordered));
  ELSE
    INSERT INTO tenure.wakes (queue, bucket, ordered) VALUES (queue, bucket, ordered);
  END IF;
END
$$;

-- The same for a row of either kind: an operator has brought it back.
CREATE OR REPLACE FUNCTION tenure.wake(queue text, bucket int) RETURNS void LANGUAGE plpgsql VOLATILE
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM tenure.wake_for(queue, bucket, NULL);
END
$$;

-- One row, in the caller's own transaction. Plain values and a plain INSERT: the server keeps its plan by itself, for every caller,
-- also where a pooler forbids prepared statements. Whether somebody sleeps is asked in the same statement: every NOTIFY takes a lock of
-- the whole database at commit.
CREATE FUNCTION tenure.enqueue_one(
  kind text, payload jsonb, partition_key text, queue text, priority smallint, at timestamptz, delay_seconds float8,
  max_attempts int, ordered boolean, hold boolean, headers jsonb DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
  row_id uuid := tenure.new_id();
  awaited boolean;
BEGIN
  INSERT INTO tenure.live (id, kind, payload, partition_key, queue, priority, available_at, max_attempts, ordered, hold, headers)
  VALUES (row_id, kind, payload, partition_key, queue, priority, COALESCE(at, statement_timestamp() + delay_seconds * interval '1 second'),
          max_attempts, ordered, hold, headers)
  RETURNING EXISTS (SELECT FROM tenure.workers AS w WHERE w.waiting) INTO awaited;
  IF awaited AND COALESCE(current_setting('tenure_inbox.notify', true), '') <> 'off' THEN
    PERFORM tenure.wake_for(queue, tenure.bucket(COALESCE(partition_key, row_id::text)), ordered);
  END IF;
  RETURN row_id;
END
$$;

-- One row under an idempotency key: enqueued, or duplicate (the key is known with this content) or conflict (with other content), both
-- with the id of the first row.
CREATE FUNCTION tenure.enqueue_keyed(
  kind text, payload jsonb, partition_key text, queue text, priority smallint, at timestamptz, delay_seconds float8,
  max_attempts int, ordered boolean, hold boolean, headers jsonb, idempotency_key text, OUT row_id uuid, OUT outcome text
) LANGUAGE plpgsql AS $$
DECLARE
  hash bytea := sha256(convert_to(kind || chr(31) || tenure.content(payload), 'UTF8'));
  awaited boolean;
BEGIN
  row_id := tenure.new_id();
  outcome := 'enqueued';
  INSERT INTO tenure.idempotency AS k (key, row_id, content_hash) VALUES (idempotency_key, row_id, hash) ON CONFLICT (key) DO NOTHING;
  IF NOT FOUND THEN
    -- A statement of its own: only a fresh snapshot sees the row that another transaction committed while we waited.
    SELECT k.row_id, CASE WHEN k.content_hash = hash THEN 'duplicate' ELSE 'conflict' END INTO row_id, outcome
    FROM tenure.idempotency AS k WHERE k.key = idempotency_key;
    IF NOT FOUND THEN  -- implied: no test can have retention forget a key between two statements of a function
      RAISE EXCEPTION 'an idempotency key was forgotten by retention while it was being sent: send again'
        USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN;
  END IF;
  INSERT INTO tenure.live (id, kind, payload, partition_key, queue, priority, available_at, max_attempts, ordered, hold, headers, idempotency_key)
  VALUES (row_id, kind, payload, partition_key, queue, priority, COALESCE(at, statement_timestamp() + delay_seconds * interval '1 second'),
          max_attempts, ordered, hold, headers, idempotency_key)
  RETURNING EXISTS (SELECT FROM tenure.workers AS w WHERE w.waiting) INTO awaited;
  IF awaited AND COALESCE(current_setting('tenure_inbox.notify', true), '') <> 'off' THEN
    PERFORM tenure.wake_for(queue, tenure.bucket(COALESCE(partition_key, row_id::text)), ordered);
  END IF;
END
$$;

-- Many rows: as in 0002_functions.sql, with a shorter way for those without idempotency keys.
SELECT set_config('tenure_inbox.as_owner', (SELECT p.prosecdef FROM pg_proc AS p WHERE p.oid = 'tenure.enqueue_many'::regproc)::text, true);
CREATE OR REPLACE FUNCTION tenure.enqueue_many(
  kinds text[], payloads jsonb[], partition_keys text[], queues text[], priorities smallint[],
  ats timestamptz[], delays float8[], idempotency_keys text[], max_attempts int[], ordered boolean[], holds boolean[], headers jsonb[] DEFAULT NULL
) RETURNS TABLE (row_id uuid, outcome text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  ids uuid[] := ARRAY(SELECT tenure.new_id() FROM generate_subscripts(kinds, 1));
  hashes bytea[];
  keyed boolean := array_remove(idempotency_keys, NULL) <> '{}';
BEGIN
  IF keyed THEN
    hashes := ARRAY(
      SELECT CASE WHEN s.key IS NOT NULL THEN sha256(convert_to(s.kind || chr(31) || tenure.content(s.payload), 'UTF8')) END
      FROM unnest(idempotency_keys, kinds, payloads) WITH ORDINALITY AS s (key, kind, payload, n) ORDER BY s.n);
    -- In key order, so that two bulk enqueues with common keys wait for each other instead of deadlocking.
    INSERT INTO tenure.idempotency AS k (key, row_id, content_hash)
    SELECT DISTINCT ON (s.key) s.key, s.id, s.hash
    FROM unnest(idempotency_keys, ids, hashes) WITH ORDINALITY AS s (key, id, hash, n)
    WHERE s.key IS NOT NULL ORDER BY s.key, s.n
    ON CONFLICT (key) DO NOTHING;

    INSERT INTO tenure.live (id, kind, payload, partition_key, queue, priority, available_at, idempotency_key, max_attempts, ordered, hold, headers)
    SELECT s.id, s.kind, s.payload, s.partition_key, s.queue, s.priority,
           COALESCE(s.at, statement_timestamp() + s.delay * interval '1 second'), s.key, s.max_attempts, s.ordered, s.hold, s.headers
    FROM unnest(ids, kinds, payloads, partition_keys, queues, priorities, ats, delays, idempotency_keys, max_attempts, ordered, holds, headers)
      WITH ORDINALITY AS s (id, kind, payload, partition_key, queue, priority, at, delay, key, max_attempts, ordered, hold, headers, n)
    -- A keyed row is ours to insert only if the key points at it.
    WHERE s.key IS NULL OR EXISTS (
      SELECT FROM tenure.idempotency AS k
      WHERE k.row_id = s.id
        AND k.key = s.key)  -- implied: a new id stands under one key at most; finds it by the primary key
    ORDER BY s.n;
  ELSE
    -- Of one function alone, rows come in its order: a sort would only copy them.
    INSERT INTO tenure.live (id, kind, payload, partition_key, queue, priority, available_at, max_attempts, ordered, hold, headers)
    SELECT s.id, s.kind, s.payload, s.partition_key, s.queue, s.priority,
           COALESCE(s.at, statement_timestamp() + s.delay * interval '1 second'), s.max_attempts, s.ordered, s.hold, s.headers
    FROM unnest(ids, kinds, payloads, partition_keys, queues, priorities, ats, delays, max_attempts, ordered, holds, headers)
      AS s (id, kind, payload, partition_key, queue, priority, at, delay, max_attempts, ordered, hold, headers);
  END IF;

  -- Only when somebody sleeps: every NOTIFY takes a lock of the whole database at commit. One for each queue at most.
  IF EXISTS (SELECT FROM tenure.workers AS w WHERE w.waiting) AND COALESCE(current_setting('tenure_inbox.notify', true), '') <> 'off' THEN
    PERFORM tenure.wake_for(s.queue, CASE count(*) WHEN 1 THEN min(tenure.bucket(COALESCE(s.partition_key, s.id::text))) END, bool_or(s.ordered))
    FROM unnest(ids, queues, partition_keys, ordered) AS s (id, queue, partition_key, ordered) GROUP BY s.queue;
  END IF;

  IF NOT keyed THEN  -- implied: only quicker, without it the answer below is the same
    RETURN QUERY SELECT unnest(ids), 'enqueued';
  ELSE
    -- A statement of its own: only a fresh snapshot sees the row that another transaction committed while we waited.
    IF EXISTS (SELECT FROM unnest(idempotency_keys) AS s (key)
               WHERE s.key IS NOT NULL AND NOT EXISTS (SELECT FROM tenure.idempotency AS k WHERE k.key = s.key)) THEN
      RAISE EXCEPTION 'an idempotency key was forgotten by retention while it was being sent: send again'
        USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN QUERY
    SELECT COALESCE(k.row_id, s.id),
           CASE WHEN s.key IS NULL OR k.row_id = s.id THEN 'enqueued'
                WHEN k.content_hash = s.hash THEN 'duplicate'
                ELSE 'conflict' END
    FROM unnest(ids, idempotency_keys, hashes) WITH ORDINALITY AS s (id, key, hash, n)
    LEFT JOIN tenure.idempotency AS k ON k.key = s.key
    ORDER BY s.n;
  END IF;
END
$$;

-- The door for psql and every other language, with its check, through the same functions.
CREATE OR REPLACE FUNCTION tenure.enqueue_as_given(
  kind text, payload jsonb, partition_key text DEFAULT NULL, queue text DEFAULT 'default', priority int DEFAULT 0,
  at timestamptz DEFAULT NULL, delay_seconds float8 DEFAULT 0, idempotency_key text DEFAULT NULL,
  max_attempts int DEFAULT 5, ordered boolean DEFAULT false, hold boolean DEFAULT false, headers jsonb DEFAULT NULL
) RETURNS TABLE (row_id uuid, outcome text) LANGUAGE plpgsql AS $$
DECLARE
  fault text := CASE
    WHEN delay_seconds IS NULL OR NOT delay_seconds BETWEEN 0 AND 315576000 THEN
      format('delay_seconds=%s must be between 0 and 315576000: 0 is no delay', COALESCE(delay_seconds::text, 'NULL'))
    WHEN at NOT BETWEEN statement_timestamp() - interval '10 years' AND statement_timestamp() + interval '10 years' THEN  -- implied: no test can tell the statement's clock from the transaction's within ten years
      format('at=%s must be within ten years from now', at)
    WHEN at IS NOT NULL AND delay_seconds <> 0 THEN
      format('at=%s and delay_seconds=%s are two answers to one question: give one', at, delay_seconds)
    ELSE tenure.fault_of(kind, queue, partition_key, idempotency_key, payload, headers, priority, max_attempts, statement_timestamp(), ordered, hold)  -- implied: any time within ten years
  END;
BEGIN
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION '%', fault USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF idempotency_key IS NULL THEN
    row_id := tenure.enqueue_one(kind, payload, partition_key, queue, priority::smallint, at, delay_seconds, max_attempts, ordered, hold, headers);
    outcome := 'enqueued';
  ELSE
    SELECT sent.row_id, sent.outcome INTO row_id, outcome
    FROM tenure.enqueue_keyed(kind, payload, partition_key, queue, priority::smallint, at, delay_seconds, max_attempts, ordered, hold, headers,
                              idempotency_key) AS sent;
  END IF;
  RETURN NEXT;
END
$$;

-- Whoever may enqueue may do so still, before roles are granted anew, and with the same rights as before.
DO $rights$
DECLARE
  grantee text;
BEGIN
  IF current_setting('tenure_inbox.as_owner')::boolean THEN
    ALTER FUNCTION tenure.enqueue_many SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
    ALTER FUNCTION tenure.enqueue_one SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
    ALTER FUNCTION tenure.enqueue_keyed SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
  END IF;
  FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_proc AS p, aclexplode(p.proacl) AS a
                 WHERE p.oid = 'tenure.enqueue_many'::regproc AND a.grantee <> 0 LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenure.enqueue_one, tenure.enqueue_keyed TO %s', grantee);
  END LOOP;
  FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_proc AS p, aclexplode(p.proacl) AS a
                 WHERE p.oid = 'tenure.wake'::regproc AND a.grantee <> 0 LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenure.wake_for TO %s', grantee);
  END LOOP;
END
$rights$;
