-- Unique rows: one is sent unless one like it still waits; and limits that code declares for a queue.
-- kind: expand
--
--   enqueue_unique    as enqueue_again, but the name is free again as soon as its row has begun, and content is not compared
--   declared_limits   what code has declared last: while a queue still has just that, the next version of the code may change it

CREATE TABLE tenure.declared_limits (
  queue           text NOT NULL PRIMARY KEY,
  max_running     int,
  max_per_key     int,
  rate_per_second float8,
  burst           int
);

-- The row that makes this one a duplicate is locked until the caller commits, and claims pass locked rows: it cannot begin
-- before it sees what the caller has written. Without that, a change would be committed for which no row runs.
CREATE FUNCTION tenure.enqueue_unique(
  kind text, payload jsonb, partition_key text, queue text, priority smallint, at timestamptz, delay_seconds float8,
  max_attempts int, ordered boolean, hold boolean, headers jsonb, idempotency_key text, for_seconds float8,
  OUT row_id uuid, OUT outcome text
) LANGUAGE plpgsql AS $$
DECLARE
  first_row uuid;
  awaited boolean;
BEGIN
  SELECT sent.row_id, sent.outcome INTO first_row, outcome
  FROM tenure.enqueue_keyed(kind, payload, partition_key, queue, priority, at, delay_seconds, max_attempts, ordered, hold, headers,
                            idempotency_key) AS sent;
  row_id := first_row;
  IF outcome = 'enqueued' THEN
    RETURN;
  END IF;
  outcome := 'duplicate';
  PERFORM 1 FROM tenure.live AS i WHERE i.id = first_row AND i.status = 'pending' FOR SHARE;
  IF FOUND THEN  -- implied: only quicker, it is looked at again below with its key locked
    RETURN;
  END IF;
  SELECT k.row_id INTO first_row FROM tenure.idempotency AS k WHERE k.key = idempotency_key FOR UPDATE;
  IF NOT FOUND THEN  -- implied: no test can have retention forget a key between two statements of a function
    RAISE EXCEPTION 'an idempotency key was forgotten by retention while it was being sent: send again'
      USING ERRCODE = 'serialization_failure';
  END IF;
  row_id := first_row;
  PERFORM 1 FROM tenure.idempotency AS k
  WHERE k.key = idempotency_key AND k.created_at > clock_timestamp() - for_seconds * interval '1 second';
  IF FOUND THEN
    RETURN;
  END IF;
  PERFORM 1 FROM tenure.live AS i WHERE i.id = first_row AND i.status = 'pending' FOR SHARE;
  IF FOUND THEN
    RETURN;
  END IF;
  row_id := tenure.new_id();
  outcome := 'enqueued';
  UPDATE tenure.idempotency AS k
  SET row_id = enqueue_unique.row_id, created_at = statement_timestamp(),
      content_hash = sha256(convert_to(enqueue_unique.kind || chr(31) || tenure.content(enqueue_unique.payload), 'UTF8'))
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

-- Set the limits that code declares, unless an operator has set others: set, same or kept.
CREATE FUNCTION tenure.declare_limits(of_queue text, running int, per_key int, rate float8, at_once int) RETURNS text LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  now_set record;
  before record;
BEGIN
  INSERT INTO tenure.queues (queue) VALUES (of_queue) ON CONFLICT (queue) DO NOTHING;
  SELECT q.max_running, q.max_per_key, q.rate_per_second, q.burst INTO now_set FROM tenure.queues AS q WHERE q.queue = of_queue FOR UPDATE;
  SELECT d.max_running, d.max_per_key, d.rate_per_second, d.burst INTO before FROM tenure.declared_limits AS d WHERE d.queue = of_queue;
  INSERT INTO tenure.declared_limits AS d (queue, max_running, max_per_key, rate_per_second, burst)
  VALUES (of_queue, running, per_key, rate, at_once)
  ON CONFLICT (queue) DO UPDATE SET max_running = running, max_per_key = per_key, rate_per_second = rate, burst = at_once;
  IF (now_set.max_running, now_set.max_per_key, now_set.rate_per_second, now_set.burst) IS NOT DISTINCT FROM (running, per_key, rate, at_once) THEN
    RETURN 'same';
  END IF;
  IF (now_set.max_running, now_set.max_per_key, now_set.rate_per_second, now_set.burst)
     IS DISTINCT FROM (before.max_running, before.max_per_key, before.rate_per_second, before.burst) THEN
    RETURN 'kept';
  END IF;
  UPDATE tenure.queues AS q
  SET max_running = running, max_per_key = per_key, rate_per_second = rate, burst = at_once,
      tokens = tenure.refilled(q.tokens, q.rate_per_second, q.burst, clock_timestamp() - q.refilled_at),
      refilled_at = clock_timestamp(), updated_at = clock_timestamp()
  WHERE q.queue = of_queue;
  PERFORM pg_notify(tenure.channel(), 'queues');
  RETURN 'set';
END
$$;

DO $rights$
DECLARE
  grantee text;
BEGIN
  IF (SELECT p.prosecdef FROM pg_proc AS p WHERE p.oid = 'tenure.enqueue_keyed'::regproc) THEN
    ALTER FUNCTION tenure.enqueue_unique SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
  END IF;
  FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_proc AS p, aclexplode(p.proacl) AS a
                 WHERE p.oid = 'tenure.enqueue_keyed'::regproc AND a.grantee <> 0 LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenure.enqueue_unique TO %s', grantee);
  END LOOP;
  FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_proc AS p, aclexplode(p.proacl) AS a
                 WHERE p.oid = 'tenure.begin_webhooks'::regproc AND a.grantee <> 0 LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenure.declare_limits TO %s', grantee);
  END LOOP;
END
$rights$;
