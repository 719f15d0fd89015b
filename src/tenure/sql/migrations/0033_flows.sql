-- Workflows: what each step of an instance returned, what it waits for, and the signals that came before anybody asked for them.
-- kind: expand

-- One row a step. An instance is its row in live; ids are time-ordered, so a partition holds the instances that began on one day.
CREATE TABLE tenure.steps (
  row_id      uuid        NOT NULL,
  run         int         NOT NULL,
  path        text        NOT NULL COLLATE "C",  -- '' for the function itself, '3.0' for the first branch of its step 3
  n           int         NOT NULL,
  name        text        NOT NULL,
  state       text        NOT NULL CHECK (state IN ('begun', 'done', 'failed', 'waiting', 'retrying', 'timed_out', 'cancelled', 'patched')),
  fence_token bigint      NOT NULL,
  args_hash   bigint      NOT NULL DEFAULT 0,
  tries       int         NOT NULL DEFAULT 1,
  recorded_at timestamptz NOT NULL,
  until       timestamptz,
  result      jsonb,
  error       text,
  PRIMARY KEY (row_id, run, path, n)
) PARTITION BY RANGE (row_id);
CREATE TABLE tenure.steps_rest PARTITION OF tenure.steps DEFAULT WITH (fillfactor = 85);

-- Those that nobody has asked for yet.
CREATE TABLE tenure.signals (
  row_id  uuid        NOT NULL,
  n       bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
  name    text        NOT NULL,
  payload jsonb       NOT NULL,
  sent_at timestamptz NOT NULL DEFAULT statement_timestamp(),
  PRIMARY KEY (row_id, n)
);

CREATE TABLE tenure.signals_once (
  row_id uuid NOT NULL,
  once   text NOT NULL,
  PRIMARY KEY (row_id, once)
);

CREATE TABLE tenure.shown (
  row_id uuid  NOT NULL,
  key    text  NOT NULL,
  value  jsonb NOT NULL,
  PRIMARY KEY (row_id, key)
) WITH (fillfactor = 50);

-- What flows tell people while they work.
CREATE TABLE tenure.said (
  row_id uuid        NOT NULL,
  n      bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
  at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  chunk  text        NOT NULL,
  PRIMARY KEY (row_id, n)
);

-- The advisory lock of an instance: exclusive to go to sleep, shared to signal.
CREATE FUNCTION tenure.flow_lock(row_id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS 'SELECT hashtextextended(row_id::text, 6)';

-- Go to sleep, many instances at once. The lock first; then, in a statement of its own, a look at the signals: one snapshot for
-- both would miss a signal that was committed while the lock was waited for. A wait that is met wakes its instance: nothing of it sleeps.
-- Not patient: an instance somebody is about to signal is looked at and not given back; if nothing is met, it says locked.
-- One that stays is at work elsewhere: its waits are written down and looked at, and its row is not given back. It looks again, so it
-- needs no lock against signals.
CREATE FUNCTION tenure.park(
  ids uuid[], generations bigint[], fences bigint[], delays float8[], cleaning boolean[], stays boolean[], patient boolean,
  step_ids uuid[], runs int[], paths text[], ns int[], names text[], states text[], hashes bigint[], tries int[], step_delays float8[],
  ats float8[], errors text[]
) RETURNS TABLE (row_id uuid, outcome text, path text, n int, state text, result text, until float8, moment float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  held_ids uuid[];
  cleaning_ids uuid[] := ARRAY(SELECT l.id FROM unnest(ids, cleaning) AS l (id, cleaning) WHERE l.cleaning);
  staying uuid[] := ARRAY(SELECT l.id FROM unnest(ids, stays) AS l (id, stays) WHERE l.stays);
  signalled uuid[] := '{}';
  moment timestamptz;
BEGIN
  PERFORM tenure.must_read_committed();
  IF patient THEN
    PERFORM pg_advisory_xact_lock(tenure.flow_lock(l.id)) FROM (SELECT u.id FROM unnest(ids) AS u (id) ORDER BY u.id) AS l;
  ELSE
    -- While somebody signals it, it cannot be given back; what has come before is found all the same.
    signalled := ARRAY(SELECT u.id FROM unnest(ids) AS u (id) WHERE u.id <> ALL (staying) AND NOT pg_try_advisory_xact_lock(tenure.flow_lock(u.id)));
    staying := staying || signalled;
  END IF;
  -- The row too before the look: who ends a group of children locks it, and changes nothing if it is still held.
  held_ids := ARRAY(
    SELECT i.id FROM tenure.live AS i
    WHERE i.id = ANY (ids)  -- implied: the tokens name their rows; this one walks the primary key
      AND i.status = 'processing'  -- implied: live_state, only a processing row has a lease
      AND ((i.id, i.lease_generation, i.fence_token) IN (SELECT l.id, l.generation, l.fence FROM unnest(ids, generations, fences) AS l (id, generation, fence))) IS TRUE
      AND i.lease_expires_at > clock_timestamp()
    ORDER BY i.id
    FOR NO KEY UPDATE SKIP LOCKED);
  moment := clock_timestamp();

  -- Rows are looked up by their id, never joined to each other: a plan that expects few of them would compare each with each. Every
  -- instance has a line of its own beside its waits, without a path: it carries the delay, and the answer if there is nothing else.
  RETURN QUERY
  WITH asked AS MATERIALIZED (
    SELECT i.id, w.run, w.path, w.n, w.name, w.state, w.hash, w.tries, w.error, i.fence_token, i.limited, c.cancelled, i.headers ->> 'tenure-cancel' AS why, s.until AS known,
           CASE WHEN s.state IN ('done', 'timed_out') THEN s.state END AS ended, s.result AS had,
           CASE WHEN w.name LIKE 'wait:%' AND NOT c.cancelled AND (s.state IN ('done', 'timed_out')) IS NOT TRUE THEN substr(w.name, 6) END AS signal,
           COALESCE(s.until, LEAST(to_timestamp(w.at), moment + w.delay * interval '1 second')) AS until
    FROM (SELECT w.id, w.run, w.path, w.n, w.name, w.state, w.hash, w.tries, w.delay, w.at, w.error
          FROM unnest(step_ids, runs, paths, ns, names, states, hashes, tries, step_delays, ats, errors)
            AS w (id, run, path, n, name, state, hash, tries, delay, at, error)
          UNION ALL
          SELECT l.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, l.delay, NULL, NULL FROM unnest(ids, delays) AS l (id, delay)) AS w
    CROSS JOIN LATERAL (SELECT i.id, i.fence_token, i.limited, i.headers FROM tenure.live AS i WHERE i.id = w.id LIMIT 1) AS i
    CROSS JOIN LATERAL (SELECT (i.headers ? 'tenure-cancel') IS TRUE AND i.id <> ALL (cleaning_ids) AS cancelled) AS c
    LEFT JOIN tenure.steps AS s ON s.row_id = w.id AND s.run = w.run AND s.path = w.path AND s.n = w.n
      AND (s.state IN ('done', 'timed_out') OR (s.state = w.state AND s.tries = w.tries))
    WHERE w.id = ANY (held_ids)
  ), met AS MATERIALIZED (
    SELECT m.*, bool_or(m.state <> m.was) OVER (PARTITION BY m.id) AS awake, min(m.until) OVER (PARTITION BY m.id) AS first_until FROM (
      SELECT a.id, a.run, a.path, a.n, a.name, a.hash, a.tries, a.error, a.fence_token, a.limited, a.cancelled, a.why, a.until, a.known,
             g.n AS signal_n, COALESCE(g.payload, a.had) AS payload, a.state AS was,
             CASE WHEN a.ended IS NOT NULL THEN a.ended
                  WHEN g.n IS NOT NULL OR b.over THEN 'done'
                  WHEN a.until > moment THEN a.state
                  WHEN a.state = 'retrying' THEN 'due'
                  WHEN a.name = 'sleep' THEN 'done'
                  ELSE 'timed_out' END AS state
      FROM (SELECT a.*, row_number() OVER (PARTITION BY a.id, a.signal ORDER BY a.path, a.n) AS rank FROM asked AS a
            WHERE a.path IS NULL
               OR NOT a.cancelled) AS a
      LEFT JOIN LATERAL (
        SELECT g.n, g.payload FROM tenure.signals AS g WHERE g.row_id = a.id AND g.name = a.signal ORDER BY g.n OFFSET a.rank - 1 LIMIT 1
      ) AS g ON true
      LEFT JOIN LATERAL (
        SELECT b.ended_at IS NOT NULL OR b.failing AS over FROM tenure.groups AS b
        WHERE a.name LIKE 'group:%' AND b.id = substr(a.name, 7)::bigint LIMIT 1
      ) AS b ON true
    ) AS m
  ), asleep AS MATERIALIZED (
    SELECT m.id, m.limited, m.first_until AS until FROM met AS m
    WHERE m.path IS NULL  -- implied: one line for each instance; its waits say the same
      AND NOT m.cancelled
      AND m.awake IS NOT TRUE
      AND m.id <> ALL (staying)
  ), taken AS (
    DELETE FROM tenure.signals AS g USING met
    WHERE g.row_id = met.id  -- implied: a number is given once; this one walks the primary key
      AND g.n = met.signal_n
  ), written AS (
    INSERT INTO tenure.steps AS s (row_id, run, path, n, name, state, fence_token, args_hash, tries, recorded_at, until, result, error)
    SELECT m.id, m.run, m.path, m.n, m.name, m.state, m.fence_token, m.hash, m.tries, moment, m.until, m.payload, m.error FROM met AS m
    WHERE m.path IS NOT NULL
      AND (m.state IN ('done', 'timed_out') OR m.awake IS NOT TRUE OR (m.id = ANY (staying) AND m.state <> 'due'))
      AND NOT (m.id = ANY (staying) AND m.state = m.was AND m.known IS NOT NULL)
    ON CONFLICT (row_id, run, path, n) DO UPDATE
    SET state = excluded.state, fence_token = excluded.fence_token, tries = excluded.tries, recorded_at = excluded.recorded_at,
        until = excluded.until, result = excluded.result, error = excluded.error
    WHERE s.state IN ('begun', 'waiting', 'retrying')  -- implied: what has ended is answered as it is
  ), back AS (
    UPDATE tenure.live AS i
    SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL, claim_id = NULL,
        limited = false, attempts = 0, available_at = a.until
    FROM asleep AS a WHERE i.id = a.id
  ), given_back AS (
    DELETE FROM tenure.permits AS p USING asleep AS a
    WHERE p.row_id = a.id
      AND a.limited  -- implied: only rows claimed under limits have permits; spares the others the look
  )
  SELECT m.id, CASE WHEN m.cancelled THEN 'cancelled' WHEN m.awake THEN 'awake' WHEN m.id = ANY (signalled) THEN 'locked'
              WHEN m.id = ANY (staying) THEN 'stays' ELSE 'parked' END,
         m.path, m.n, CASE WHEN m.path IS NOT NULL THEN m.state END, CASE WHEN m.cancelled THEN m.why ELSE m.payload::text END, date_part('epoch', m.until), date_part('epoch', moment)
  FROM met AS m;
END
$$;

-- Signal an instance, in the caller's transaction: delivered into the step that waits for it, else queued. By its id, or by the
-- idempotency key of its name. The lock is shared: callers do not wait for each other, only who goes to sleep waits for them.
CREATE FUNCTION tenure.signal(of_row uuid, named text, signal text, payload jsonb, once text, OUT row_id uuid, OUT outcome text) LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  waits record;
  place record;
BEGIN
  PERFORM tenure.must_read_committed();
  row_id := COALESCE(of_row, (SELECT k.row_id FROM tenure.idempotency AS k WHERE k.key = named));
  outcome := 'unknown';
  PERFORM pg_advisory_xact_lock_shared(tenure.flow_lock(signal.row_id));
  IF NOT EXISTS (SELECT FROM tenure.live AS i WHERE i.id = signal.row_id AND i.headers ? 'tenure-flow') THEN
    outcome := CASE WHEN EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = signal.row_id AND i.headers ? 'tenure-flow') THEN 'ended' ELSE 'unknown' END;
    RETURN;
  END IF;
  IF once IS NOT NULL THEN
    INSERT INTO tenure.signals_once (row_id, once) VALUES (signal.row_id, signal.once) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      outcome := 'duplicate';
      RETURN;
    END IF;
  END IF;
  SELECT s.run, s.path, s.n INTO waits FROM tenure.steps AS s
  WHERE s.row_id = signal.row_id AND s.state = 'waiting' AND s.name = format('wait:%s', signal.signal)
    AND s.run = (SELECT COALESCE((i.headers ->> 'tenure-run')::int, 1) FROM tenure.live AS i WHERE i.id = signal.row_id)
    AND NOT EXISTS (SELECT FROM tenure.signals AS g WHERE g.row_id = signal.row_id AND g.name = signal.signal)
  ORDER BY s.path, s.n LIMIT 1;
  IF FOUND THEN
    SELECT i.queue, tenure.bucket(COALESCE(i.partition_key, i.id::text)) AS bucket INTO place FROM tenure.live AS i
    WHERE i.id = signal.row_id AND i.status = 'pending'
    FOR NO KEY UPDATE;
  END IF;
  IF FOUND THEN
    -- A statement of its own: another signal may have been first while the row was waited for.
    UPDATE tenure.steps AS s SET state = 'done', result = signal.payload, recorded_at = clock_timestamp()
    WHERE s.row_id = signal.row_id AND s.run = waits.run AND s.path = waits.path AND s.n = waits.n AND s.state = 'waiting';
    IF FOUND THEN
      UPDATE tenure.live AS i SET available_at = clock_timestamp() WHERE i.id = signal.row_id AND i.available_at > clock_timestamp();
      PERFORM tenure.rouse(ARRAY[place.queue], ARRAY[place.bucket]);
      outcome := 'delivered';
      RETURN;
    END IF;
  END IF;
  IF (SELECT count(*) FROM (SELECT FROM tenure.signals AS g WHERE g.row_id = signal.row_id LIMIT 1000) AS g) >= 1000 THEN
    RAISE EXCEPTION 'flow % has 1000 signals that nobody has asked for: let it wait for them, or send fewer', row_id
      USING ERRCODE = 'program_limit_exceeded';
  END IF;
  INSERT INTO tenure.signals (row_id, name, payload) VALUES (signal.row_id, signal.signal, signal.payload);
  outcome := 'queued';
END
$$;

-- The same instance once more from the top, with another payload and no records: the next run. Signals stay.
CREATE FUNCTION tenure.anew(row_id uuid, generation bigint, fence bigint, payload jsonb) RETURNS TABLE (id uuid, run int) LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH back AS (
    UPDATE tenure.live AS i
    SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL, claim_id = NULL,
        limited = false, attempts = 0, available_at = clock_timestamp(), payload = anew.payload,
        headers = i.headers || jsonb_build_object('tenure-run', (COALESCE((i.headers ->> 'tenure-run')::int, 1) + 1)::text)
    WHERE i.id = anew.row_id
      AND i.status = 'processing'  -- implied: live_state, only a processing row has a lease
      AND i.lease_generation = generation
      AND i.fence_token = fence
      AND i.lease_expires_at > clock_timestamp()
    RETURNING i.id, (i.headers ->> 'tenure-run')::int AS run
  ), given_back AS (
    DELETE FROM tenure.permits AS p USING back WHERE p.row_id = back.id
  )
  SELECT back.id, back.run FROM back;
END
$$;
