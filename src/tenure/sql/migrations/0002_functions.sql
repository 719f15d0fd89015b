-- What must run inside the server: the token, enqueue for every language, and the end of an attempt.
-- kind: expand

-- Which server is this? A promotion, a restore and a copy into a new cluster each change the answer.
CREATE FUNCTION tenure.timeline() RETURNS int LANGUAGE sql VOLATILE AS $$
  SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int
$$;
INSERT INTO tenure.incarnation (epoch, system_identifier, timeline, table_oid, started_at)
SELECT 1, control.system_identifier, tenure.timeline(), 'tenure.incarnation'::regclass, pg_postmaster_start_time()
FROM pg_control_system() AS control;

-- The next fence token: epoch << 40 | sequence. Monotone across rows by the sequence, and across failover, restore
-- and promotion by the epoch, which rises with the first claim on a server that is not the one last recorded. Two that
-- came of one backup rise to the same epoch: the later one begins further ahead, by 512 for each second between them.
-- A caller that has seen a higher epoch is talking to a stale primary: it gets an error and no row.
CREATE FUNCTION tenure.next_fence(seen_epoch int DEFAULT 0) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  here int := tenure.timeline();
  identifier bigint;
  found_epoch int;
  found_ahead bigint;
BEGIN
  SELECT epoch, ahead INTO found_epoch, found_ahead FROM tenure.incarnation
  WHERE timeline = here AND table_oid = 'tenure.incarnation'::regclass AND started_at = pg_postmaster_start_time();
  IF NOT FOUND THEN
    SELECT control.system_identifier INTO STRICT identifier FROM pg_control_system() AS control;
    -- Another server than the one recorded: those who come at once wait here for the first, then change nothing.
    UPDATE tenure.incarnation
    SET epoch = epoch + 1,
        ahead = 512 * extract(epoch FROM clock_timestamp() - timestamptz '2026-01-01 00:00:00+00'),  -- implied: later all the same
        system_identifier = identifier, timeline = here, table_oid = 'tenure.incarnation'::regclass,
        started_at = pg_postmaster_start_time()
    WHERE (system_identifier, timeline, table_oid) <> (identifier, here, 'tenure.incarnation'::regclass::oid);
    -- The same one after a restart: a note that saves the question above. Nobody waits for it.
    UPDATE tenure.incarnation SET started_at = pg_postmaster_start_time()
    WHERE only_row = (SELECT only_row FROM tenure.incarnation FOR UPDATE SKIP LOCKED);
    SELECT epoch, ahead INTO STRICT found_epoch, found_ahead FROM tenure.incarnation;
  END IF;
  IF found_epoch < seen_epoch THEN
    RAISE EXCEPTION 'this server is at epoch %, epoch % was seen elsewhere: connect to the current primary', found_epoch, seen_epoch
      USING ERRCODE = 'TN001';
  END IF;
  RETURN (found_epoch::bigint << 40) + found_ahead + nextval('tenure.fence_seq');
END
$$;

-- Seconds to wait before attempt n + 1: 2, 4, 8 ... up to an hour, spread by a quarter so that the rows of one dead
-- worker do not come back in the same instant. The exponent is capped: power(2, 31)::int would end every recovery.
CREATE FUNCTION tenure.backoff(attempts int) RETURNS interval LANGUAGE sql VOLATILE AS $$
  SELECT LEAST(power(2, LEAST(attempts, 12)), 3600) * (1 + random() / 4) * interval '1 second'
$$;

-- Put rows in, in the caller's own transaction. Each input gets one answer, in order:
--   enqueued   a new row      duplicate  the key is known with this content: the first row's id
--   conflict   the key is known with other content: nothing was written for this input
CREATE FUNCTION tenure.enqueue_many(
  kinds text[], payloads jsonb[], partition_keys text[], queues text[], priorities smallint[],
  ats timestamptz[], delays float8[], idempotency_keys text[], max_attempts int[], ordered boolean[], holds boolean[],
  headers jsonb[] DEFAULT NULL
) RETURNS TABLE (row_id uuid, outcome text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  ids uuid[] := ARRAY(SELECT tenure.new_id() FROM generate_subscripts(kinds, 1));
  hashes bytea[];
  keyed boolean := array_remove(idempotency_keys, NULL) <> '{}';
BEGIN
  IF keyed THEN
    hashes := ARRAY(
      SELECT CASE WHEN s.key IS NOT NULL THEN sha256(convert_to(s.kind || chr(31) || s.payload::text, 'UTF8')) END
      FROM unnest(idempotency_keys, kinds, payloads) WITH ORDINALITY AS s (key, kind, payload, n) ORDER BY s.n);
    -- In key order, so that two bulk enqueues with common keys wait for each other instead of deadlocking.
    INSERT INTO tenure.idempotency AS k (key, row_id, content_hash)
    SELECT DISTINCT ON (s.key) s.key, s.id, s.hash
    FROM unnest(idempotency_keys, ids, hashes) WITH ORDINALITY AS s (key, id, hash, n)
    WHERE s.key IS NOT NULL
    ORDER BY s.key, s.n
    ON CONFLICT (key) DO NOTHING;
  END IF;

  INSERT INTO tenure.live (id, kind, payload, partition_key, queue, priority, available_at, idempotency_key, max_attempts, ordered, hold, headers)
  SELECT s.id, s.kind, s.payload, s.partition_key, s.queue, s.priority,
         COALESCE(s.at, statement_timestamp() + s.delay * interval '1 second'), s.key, s.max_attempts, s.ordered, s.hold,
         s.headers
  FROM unnest(ids, kinds, payloads, partition_keys, queues, priorities, ats, delays, idempotency_keys, max_attempts, ordered, holds,
              headers)
    WITH ORDINALITY AS s (id, kind, payload, partition_key, queue, priority, at, delay, key, max_attempts, ordered, hold, headers, n)
  -- A keyed row is ours to insert only if the key points at it.
  WHERE s.key IS NULL OR EXISTS (
    SELECT FROM tenure.idempotency AS k
    WHERE k.row_id = s.id
      AND k.key = s.key)  -- implied: a new id stands under one key at most; finds it by the primary key
  ORDER BY s.n;

  -- Only when somebody sleeps: every NOTIFY takes a lock of the whole database at commit. One for each queue at most.
  IF EXISTS (SELECT FROM tenure.workers AS w WHERE w.waiting) AND COALESCE(current_setting('tenure_inbox.notify', true), '') <> 'off' THEN
    PERFORM tenure.wake(s.queue, CASE count(*) WHEN 1 THEN min(tenure.bucket(COALESCE(s.partition_key, s.id::text))) END)
    FROM unnest(ids, queues, partition_keys) AS s (id, queue, partition_key) GROUP BY s.queue;
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

-- The same for one row, with names and defaults, for psql and every other language:
--   SELECT * FROM tenure.enqueue('send_receipt', '{"order_id": 9182}', partition_key => 'order:9182');
CREATE FUNCTION tenure.enqueue(
  kind text, payload jsonb, partition_key text DEFAULT NULL, queue text DEFAULT 'default', priority int DEFAULT 0,
  at timestamptz DEFAULT NULL, delay_seconds float8 DEFAULT 0, idempotency_key text DEFAULT NULL,
  max_attempts int DEFAULT 5, ordered boolean DEFAULT false, hold boolean DEFAULT false,
  headers jsonb DEFAULT NULL
) RETURNS TABLE (row_id uuid, outcome text) LANGUAGE plpgsql AS $$
DECLARE
  fault text := CASE
    WHEN kind IS NULL OR octet_length(kind) NOT BETWEEN 1 AND 128 THEN 'kind must have 1 to 128 bytes'
    WHEN queue IS NULL OR octet_length(queue) NOT BETWEEN 1 AND 128 THEN 'queue must have 1 to 128 bytes'
    WHEN octet_length(partition_key) NOT BETWEEN 1 AND 512 THEN 'partition_key must have 1 to 512 bytes'
    WHEN octet_length(idempotency_key) NOT BETWEEN 1 AND 512 THEN 'idempotency_key must have 1 to 512 bytes'
    WHEN payload IS NULL THEN 'payload must not be NULL: an empty one is ''{}'''
    WHEN octet_length(payload::text) > 1048576 THEN 'payload must stay within 1 MiB: store it elsewhere and send its address'
    WHEN priority IS NULL OR priority NOT BETWEEN -100 AND 100 THEN 'priority must be within -100 and 100'
    WHEN delay_seconds IS NULL OR NOT delay_seconds BETWEEN 0 AND 315576000 THEN 'delay_seconds must be within 0 and ten years'
    WHEN at NOT BETWEEN statement_timestamp() - interval '10 years' AND statement_timestamp() + interval '10 years' THEN  -- implied: no test can tell the statement's clock from the transaction's within ten years
      'at must lie within ten years of now'
    WHEN at IS NOT NULL AND delay_seconds <> 0 THEN 'at and delay_seconds are two answers to one question: give one'
    WHEN max_attempts IS NULL OR max_attempts NOT BETWEEN 1 AND 10000 THEN 'max_attempts must be within 1 and 10000'
    WHEN ordered IS NULL OR hold IS NULL THEN 'ordered and hold must be true or false'
    WHEN ordered AND partition_key IS NULL THEN 'ordered needs a partition_key: order is kept per key'
    WHEN hold AND NOT ordered THEN 'hold needs ordered: it keeps the key waiting for an operator'
    WHEN jsonb_typeof(headers) <> 'object' THEN 'headers must be an object of texts: {"traceparent": "00-..."}'
    WHEN octet_length(headers::text) > 4096 THEN 'headers must stay within 4 KiB: put what is larger into the payload'
    WHEN EXISTS (SELECT FROM jsonb_each(headers) AS h WHERE jsonb_typeof(h.value) <> 'string') THEN
      'headers must be an object of texts: quote its numbers'
  END;
BEGIN
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION '%', fault USING ERRCODE = 'invalid_parameter_value';
  END IF;
  RETURN QUERY SELECT * FROM tenure.enqueue_many(
    ARRAY[kind], ARRAY[payload], ARRAY[partition_key], ARRAY[queue], ARRAY[priority::smallint], ARRAY[at], ARRAY[delay_seconds],
    ARRAY[idempotency_key], ARRAY[max_attempts], ARRAY[ordered], ARRAY[hold], ARRAY[headers]);
END
$$;

-- End attempts other than by completion, all under their leases: the one place where a holder's retry, fail, dead_letter
-- and release, and the sweep's expiry, are decided. Each input that is still current gets one answer; the others none.
CREATE FUNCTION tenure.end_attempts(
  ids uuid[], generations bigint[], fences bigint[], how text, errors text[], delays float8[]
) RETURNS TABLE (row_id uuid, token bigint, next_status text, next_at timestamptz) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH held AS (
    SELECT i.id, i.seq, i.created_at, i.available_at, i.claimed_at, i.lease_generation, i.fence_token,
           i.attempts - CASE WHEN how = 'released' THEN 1 ELSE 0 END AS attempts,  -- given back unstarted: costs nothing
           i.max_attempts, i.priority, i.ordered, i.hold, i.limited, i.kind, i.queue, i.partition_key,
           i.claimed_by, i.idempotency_key, i.payload, i.headers, COALESCE(lease.error, i.last_error) AS last_error, lease.error,
           clock_timestamp() AS ended_at,
           clock_timestamp() + CASE WHEN lease.delay IS NOT NULL THEN lease.delay * interval '1 second'
                                    WHEN how = 'released' THEN interval '0'
                                    ELSE tenure.backoff(i.attempts) END AS next_at,
           CASE WHEN how = 'failed' THEN 'failed'
                WHEN how = 'dead_lettered' THEN 'dead_letter'
                WHEN i.cancel_asked THEN 'cancelled'
                WHEN how <> 'released' AND i.attempts >= i.max_attempts THEN 'dead_letter'
                ELSE 'pending' END AS next_status
    FROM unnest(ids, generations, fences, errors, delays) AS lease (id, generation, fence, error, delay)
    JOIN tenure.live AS i ON i.id = lease.id
    WHERE i.status = 'processing'
      AND i.lease_generation = lease.generation
      AND i.fence_token = lease.fence
    ORDER BY i.id
    FOR UPDATE OF i
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
                             attempts, max_attempts, priority, ordered, hold, status, kind, queue,
                             partition_key, finished_by, idempotency_key, payload, last_error, headers)
    SELECT held.id, held.seq, held.created_at, held.available_at, held.claimed_at, held.ended_at, held.lease_generation, held.fence_token,
           held.attempts, held.max_attempts, held.priority, held.ordered, held.hold, held.next_status, held.kind, held.queue,
           held.partition_key, held.claimed_by, held.idempotency_key, held.payload, held.last_error, held.headers
    FROM held WHERE held.next_status <> 'pending'
  ), tape AS (
    INSERT INTO tenure.attempts (row_id, fence_token, lease_generation, worker, claimed_at, ended_at, outcome, error)
    SELECT held.id, held.fence_token, held.lease_generation, held.claimed_by, held.claimed_at, held.ended_at, how, held.error
    FROM held
  ), freed AS (
    -- The key goes on with its next row, unless this one ended badly and says hold: then it waits for an operator.
    DELETE FROM tenure.keys AS k USING held
    WHERE k.row_id = held.id
      AND held.ordered  -- implied: only ordered rows have a key; spares the others the look
      AND NOT (held.hold AND held.next_status IN ('failed', 'dead_letter'))
  ), given_back AS (
    DELETE FROM tenure.permits AS p USING held
    WHERE p.row_id = held.id
      AND held.limited  -- implied: only rows claimed under limits have permits; spares the others the look
  )
  SELECT held.id, held.fence_token, held.next_status, held.next_at FROM held;
END
$$;
