-- Names that can be used again: an idempotency key whose row has ended may stand for a new one.
-- kind: expand

-- As enqueue_keyed, unless the row of the key has ended: then the key is given to this one. The key is locked first, and whether its
-- row has ended is asked afterwards, in a statement of its own: of two who send at once, the second finds the row of the first.
CREATE FUNCTION tenure.enqueue_again(
  kind text, payload jsonb, partition_key text, queue text, priority smallint, at timestamptz, delay_seconds float8,
  max_attempts int, ordered boolean, hold boolean, headers jsonb, idempotency_key text, OUT row_id uuid, OUT outcome text
) LANGUAGE plpgsql AS $$
DECLARE
  first_row uuid;
  awaited boolean;
BEGIN
  SELECT sent.row_id, sent.outcome INTO row_id, outcome
  FROM tenure.enqueue_keyed(kind, payload, partition_key, queue, priority, at, delay_seconds, max_attempts, ordered, hold, headers,
                            idempotency_key) AS sent;
  IF outcome = 'enqueued' THEN
    RETURN;
  END IF;
  SELECT k.row_id INTO first_row FROM tenure.idempotency AS k WHERE k.key = idempotency_key FOR UPDATE;
  IF NOT FOUND THEN  -- implied: no test can have retention forget a key between two statements of a function
    RAISE EXCEPTION 'an idempotency key was forgotten by retention while it was being sent: send again'
      USING ERRCODE = 'serialization_failure';
  END IF;
  IF EXISTS (SELECT FROM tenure.live AS i WHERE i.id = first_row) THEN
    row_id := first_row;
    SELECT CASE WHEN k.content_hash = sha256(convert_to(kind || chr(31) || tenure.content(payload), 'UTF8')) THEN 'duplicate' ELSE 'conflict' END
    INTO outcome FROM tenure.idempotency AS k WHERE k.key = idempotency_key;
    RETURN;
  END IF;
  row_id := tenure.new_id();
  outcome := 'enqueued';
  UPDATE tenure.idempotency AS k
  SET row_id = enqueue_again.row_id, created_at = statement_timestamp(),
      content_hash = sha256(convert_to(enqueue_again.kind || chr(31) || tenure.content(enqueue_again.payload), 'UTF8'))
  WHERE k.key = idempotency_key;
  INSERT INTO tenure.live (id, kind, payload, partition_key, queue, priority, available_at, max_attempts, ordered, hold, headers, idempotency_key)
  VALUES (row_id, kind, payload, partition_key, queue, priority, COALESCE(at, statement_timestamp() + delay_seconds * interval '1 second'),
          max_attempts, ordered, hold, headers, idempotency_key)
  RETURNING EXISTS (SELECT FROM tenure.workers AS w WHERE w.waiting) INTO awaited;
  IF awaited AND COALESCE(current_setting('tenure_inbox.notify', true), '') <> 'off' THEN
    PERFORM tenure.wake_for(queue, tenure.bucket(COALESCE(partition_key, row_id::text)), ordered);
  END IF;
END
$$;

DO $rights$
DECLARE
  grantee text;
BEGIN
  IF (SELECT p.prosecdef FROM pg_proc AS p WHERE p.oid = 'tenure.enqueue_keyed'::regproc) THEN
    ALTER FUNCTION tenure.enqueue_again SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
  END IF;
  FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_proc AS p, aclexplode(p.proacl) AS a
                 WHERE p.oid = 'tenure.enqueue_keyed'::regproc AND a.grantee <> 0 LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenure.enqueue_again TO %s', grantee);
  END LOOP;
END
$rights$;
