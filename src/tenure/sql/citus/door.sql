-- The door: enqueue from any node of a Citus cluster, in the caller's transaction, into the inbox of the node that its key belongs to.
--
--   enqueue and its kin   what producers call, with the arguments of their namesakes in tenure
--   put, put_many         run by Citus on the node of their first argument, where they call tenure
--   counts                how many rows each inbox has, by status
--
-- What runs on the node of a key runs there with the owner's rights: a producer needs none to tables. What leads there runs as the caller: in
-- one transaction Citus lets no second user at a range, and the caller may have written to a table of its own that is spread alike.

SET LOCAL citus.multi_shard_modify_mode TO 'sequential';

CREATE OR REPLACE FUNCTION tenure_door.put(
  routing_key text, verb text, kind text, payload jsonb, partition_key text, queue text, priority int, at timestamptz, delay_seconds float8,
  max_attempts int, ordered boolean, hold boolean, headers jsonb, idempotency_key text, for_seconds float8
) RETURNS TABLE (row_id uuid, outcome text) LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF partition_key IS NOT NULL AND ordered IS DISTINCT FROM false THEN
    PERFORM tenure_door.stay(routing_key);
    IF COALESCE(ordered, (SELECT d.ordered FROM tenure.declared(kind) AS d LIMIT 1)) THEN
      PERFORM tenure_door.check_settled();
    END IF;
  END IF;
  PERFORM tenure_door.check_home(routing_key);
  PERFORM tenure_door.check_inbox();
  IF verb = 'one' THEN  -- implied: only quicker, enqueue does the same with everything given
    RETURN QUERY SELECT tenure.enqueue_one(kind, payload, partition_key, queue, priority::smallint, at, delay_seconds, max_attempts, ordered,
                                           hold, headers), 'enqueued';
  ELSIF verb = 'keyed' THEN  -- implied: only quicker, enqueue does the same with everything given
    RETURN QUERY SELECT s.row_id, s.outcome FROM tenure.enqueue_keyed(kind, payload, partition_key, queue, priority::smallint, at,
      delay_seconds, max_attempts, ordered, hold, headers, idempotency_key) AS s;
  ELSIF verb = 'again' THEN
    RETURN QUERY SELECT s.row_id, s.outcome FROM tenure.enqueue_again(kind, payload, partition_key, queue, priority::smallint, at,
      delay_seconds, max_attempts, ordered, hold, headers, idempotency_key) AS s;
  ELSIF verb = 'unique' THEN
    RETURN QUERY SELECT s.row_id, s.outcome FROM tenure.enqueue_unique(kind, payload, partition_key, queue, priority::smallint, at,
      delay_seconds, max_attempts, ordered, hold, headers, idempotency_key, for_seconds) AS s;
  ELSE
    IF partition_key IS NULL AND EXISTS (SELECT FROM tenure.declared(kind) AS d WHERE d.keyed <> 'never') THEN
      RAISE EXCEPTION 'the handler of % gives its rows a key, and the key decides the node: give partition_key', kind
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY SELECT s.row_id, s.outcome FROM tenure.enqueue(kind, payload, partition_key, queue, priority, at, delay_seconds,
      idempotency_key, max_attempts, ordered, hold, headers) AS s;
  END IF;
END
$$;

DROP FUNCTION IF EXISTS tenure_door.put_many(text, text[], text[], jsonb[], text[], text[], smallint[], timestamptz[], float8[], int[], boolean[],
                                             boolean[], jsonb[]);  -- of a door that sent rows with names one by one
DROP FUNCTION IF EXISTS tenure_door.put_some(text[], bigint[], text[], jsonb[], text[], text[], smallint[], timestamptz[], float8[], int[], boolean[],
                                             boolean[], jsonb[]);
CREATE OR REPLACE FUNCTION tenure_door.put_many(
  routing_key text, routing_keys text[], kinds text[], payloads jsonb[], partition_keys text[], queues text[], priorities smallint[],
  ats timestamptz[], delays float8[], max_attempts int[], ordered boolean[], holds boolean[], headers jsonb[], idempotency_keys text[]
) RETURNS TABLE (row_id uuid, outcome text) LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM tenure_door.stay(k.key) FROM (
    SELECT s.key FROM unnest(routing_keys, ordered) AS s (key, ordered)
    WHERE s.ordered GROUP BY s.key ORDER BY tenure_door.range_of(s.key)) AS k;
  IF true = ANY (ordered) THEN
    PERFORM tenure_door.check_settled();
  END IF;
  PERFORM tenure_door.check_home(each) FROM unnest(routing_keys) AS each;
  PERFORM tenure_door.check_inbox();
  RETURN QUERY SELECT s.row_id, s.outcome FROM tenure.enqueue_many(kinds, payloads, partition_keys, queues, priorities, ats, delays,
                                                                   idempotency_keys, max_attempts, ordered, holds, headers) AS s;
END
$$;

-- One row by whatever verb. An idempotency key is taken first.
CREATE OR REPLACE FUNCTION tenure_door.send(
  verb text, kind text, payload jsonb, partition_key text, queue text, priority int, at timestamptz, delay_seconds float8,
  max_attempts int, ordered boolean, hold boolean, headers jsonb, idempotency_key text, for_seconds float8, OUT row_id uuid, OUT outcome text
) LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  routing_key text := COALESCE(partition_key, idempotency_key, gen_random_uuid()::text);
  hash bytea := CASE WHEN idempotency_key IS NOT NULL AND verb IN ('keyed', 'given') THEN tenure_door.hash_of(kind, payload) END;
BEGIN
  IF hash IS NOT NULL AND tenure_door.here() = 0 THEN
    -- A move begins here: who waits for it here finds the new node. Elsewhere this would be a second lock, in another order than a move's.
    PERFORM tenure_door.hold_range(idempotency_key);
  END IF;
  IF NOT tenure_door.alone() OR (hash IS NOT NULL AND tenure_door.home(idempotency_key) <> tenure_door.home(routing_key)) THEN
    PERFORM tenure_door.commit_together();
  END IF;
  IF hash IS NOT NULL THEN
    SELECT t.row_id, t.outcome INTO row_id, outcome FROM tenure_door.take_key(idempotency_key, hash) AS t;
    IF outcome IS NOT NULL THEN
      RETURN;
    END IF;
  END IF;
  IF partition_key IS NOT NULL AND ordered IS DISTINCT FROM false AND tenure_door.here() = 0 THEN
    PERFORM tenure_door.hold_range(routing_key);  -- for the same reason
  END IF;
  SELECT s.row_id, s.outcome INTO row_id, outcome
  FROM tenure_door.put(routing_key, verb, kind, payload, partition_key, queue, priority, at, delay_seconds, max_attempts, ordered, hold,
                       headers, idempotency_key, for_seconds) AS s;
  IF hash IS NOT NULL THEN  -- a conflict is one with a row that was sent to its node directly
    PERFORM FROM tenure_door.note_key(idempotency_key, CASE WHEN outcome <> 'conflict' THEN row_id END);
  END IF;
END
$$;

CREATE OR REPLACE FUNCTION tenure_door.enqueue_one(
  kind text, payload jsonb, partition_key text, queue text, priority smallint, at timestamptz, delay_seconds float8,
  max_attempts int, ordered boolean, hold boolean, headers jsonb DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql AS $$
BEGIN
  RETURN (tenure_door.send('one', kind, payload, partition_key, queue, priority, at, delay_seconds, max_attempts, ordered, hold, headers,
                           NULL, NULL)).row_id;
END
$$;

CREATE OR REPLACE FUNCTION tenure_door.enqueue_keyed(
  kind text, payload jsonb, partition_key text, queue text, priority smallint, at timestamptz, delay_seconds float8,
  max_attempts int, ordered boolean, hold boolean, headers jsonb, idempotency_key text, OUT row_id uuid, OUT outcome text
) LANGUAGE plpgsql AS $$
BEGIN
  SELECT s.row_id, s.outcome INTO row_id, outcome FROM tenure_door.send('keyed', kind, payload, partition_key, queue, priority, at,
    delay_seconds, max_attempts, ordered, hold, headers, idempotency_key, NULL) AS s;
END
$$;

-- These two look at the row that has the name, on the node where a row of this key goes: a name goes with one partition key, or none.
CREATE OR REPLACE FUNCTION tenure_door.enqueue_again(
  kind text, payload jsonb, partition_key text, queue text, priority smallint, at timestamptz, delay_seconds float8,
  max_attempts int, ordered boolean, hold boolean, headers jsonb, idempotency_key text, OUT row_id uuid, OUT outcome text
) LANGUAGE plpgsql AS $$
BEGIN
  SELECT s.row_id, s.outcome INTO row_id, outcome FROM tenure_door.send('again', kind, payload, partition_key, queue, priority, at,
    delay_seconds, max_attempts, ordered, hold, headers, idempotency_key, NULL) AS s;
END
$$;

CREATE OR REPLACE FUNCTION tenure_door.enqueue_unique(
  kind text, payload jsonb, partition_key text, queue text, priority smallint, at timestamptz, delay_seconds float8,
  max_attempts int, ordered boolean, hold boolean, headers jsonb, idempotency_key text, for_seconds float8,
  OUT row_id uuid, OUT outcome text
) LANGUAGE plpgsql AS $$
BEGIN
  SELECT s.row_id, s.outcome INTO row_id, outcome FROM tenure_door.send('unique', kind, payload, partition_key, queue, priority, at,
    delay_seconds, max_attempts, ordered, hold, headers, idempotency_key, for_seconds) AS s;
END
$$;

-- Idempotency keys are taken one by one, in their own order, so that two senders wait for each other. Then the rows of each node go there with one
-- call, in the order in which they are given: an ordered key has rows with and without an idempotency key.
CREATE OR REPLACE FUNCTION tenure_door.enqueue_many(
  kinds text[], payloads jsonb[], partition_keys text[], queues text[], priorities smallint[],
  ats timestamptz[], delays float8[], idempotency_keys text[], max_attempts int[], ordered boolean[], holds boolean[], headers jsonb[] DEFAULT NULL
) RETURNS TABLE (row_id uuid, outcome text) LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  one record;
  sent record;
  part record;
  taken bigint[] := '{}';
  ids uuid[] := array_fill(NULL::uuid, ARRAY[cardinality(kinds)]);
  outcomes text[] := array_fill(NULL::text, ARRAY[cardinality(kinds)]);
BEGIN
  PERFORM tenure_door.commit_together();
  FOR one IN SELECT s.key, min(s.n) AS n FROM unnest(idempotency_keys) WITH ORDINALITY AS s (key, n) WHERE s.key IS NOT NULL GROUP BY s.key ORDER BY s.key LOOP
    IF tenure_door.here() = 0 THEN
      PERFORM tenure_door.hold_range(one.key);
    END IF;
    SELECT t.row_id, t.outcome INTO sent FROM tenure_door.take_key(one.key, tenure_door.hash_of(kinds[one.n], payloads[one.n])) AS t;
    ids[one.n] := sent.row_id;
    outcomes[one.n] := sent.outcome;
    IF sent.outcome IS NULL THEN
      taken := taken || one.n;
    END IF;
  END LOOP;
  PERFORM tenure_door.hold_range(k.key) FROM (
    SELECT s.key FROM unnest(partition_keys, ordered) AS s (key, ordered)
    WHERE tenure_door.here() = 0  -- implied: elsewhere one lock more, in another order than a move's: a deadlock that no test can time
      AND s.ordered
      AND s.key IS NOT NULL  -- implied: live_sane refuses an ordered row without one
    GROUP BY s.key ORDER BY tenure_door.range_of(s.key)) AS k;
  FOR part IN
    SELECT array_agg(s.n ORDER BY s.n) AS n, array_agg(s.route ORDER BY s.n) AS routes FROM (
      SELECT r.n, r.route, tenure_door.home(r.route) AS home FROM (
        SELECT p.n, COALESCE(p.partition_key, p.key, gen_random_uuid()::text) AS route
        FROM unnest(partition_keys, idempotency_keys) WITH ORDINALITY AS p (partition_key, key, n)
        WHERE p.key IS NULL OR p.n = ANY (taken)) AS r) AS s
    GROUP BY s.home ORDER BY s.home
  LOOP
    FOR sent IN
      SELECT part.n[s.i] AS n, s.row_id, s.outcome
      FROM tenure_door.put_some(part.routes, part.n, kinds, payloads, partition_keys, queues, priorities, ats, delays, max_attempts, ordered,
                                holds, headers, idempotency_keys) WITH ORDINALITY AS s (row_id, outcome, i)
    LOOP
      ids[sent.n] := sent.row_id;
      outcomes[sent.n] := sent.outcome;
    END LOOP;
  END LOOP;
  FOR i IN 1 .. cardinality(taken) LOOP
    PERFORM FROM tenure_door.note_key(idempotency_keys[taken[i]], CASE WHEN outcomes[taken[i]] <> 'conflict' THEN ids[taken[i]] END);
  END LOOP;
  FOR one IN SELECT s.n FROM unnest(outcomes) WITH ORDINALITY AS s (outcome, n) WHERE s.outcome IS NULL ORDER BY s.n LOOP  -- a name that is here twice
    SELECT s.row_id, s.outcome INTO sent FROM tenure_door.send(
      'keyed', kinds[one.n], payloads[one.n], partition_keys[one.n], queues[one.n], priorities[one.n], ats[one.n], delays[one.n],
      max_attempts[one.n], ordered[one.n], holds[one.n], headers[one.n], idempotency_keys[one.n], NULL) AS s;
    ids[one.n] := sent.row_id;
    outcomes[one.n] := sent.outcome;
  END LOOP;
  RETURN QUERY SELECT s.id, s.outcome FROM unnest(ids, outcomes) AS s (id, outcome);
END
$$;

-- Those rows of many that go to one node.
CREATE OR REPLACE FUNCTION tenure_door.put_some(
  routes text[], n bigint[], kinds text[], payloads jsonb[], partition_keys text[], queues text[], priorities smallint[], ats timestamptz[],
  delays float8[], max_attempts int[], ordered boolean[], holds boolean[], headers jsonb[], idempotency_keys text[]
) RETURNS TABLE (row_id uuid, outcome text) LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  route text := routes[1];
BEGIN
  kinds := ARRAY(SELECT kinds[i] FROM unnest(n) AS i);
  payloads := ARRAY(SELECT payloads[i] FROM unnest(n) AS i);
  partition_keys := ARRAY(SELECT partition_keys[i] FROM unnest(n) AS i);
  queues := ARRAY(SELECT queues[i] FROM unnest(n) AS i);
  priorities := ARRAY(SELECT priorities[i] FROM unnest(n) AS i);
  ats := ARRAY(SELECT ats[i] FROM unnest(n) AS i);
  delays := ARRAY(SELECT delays[i] FROM unnest(n) AS i);
  max_attempts := ARRAY(SELECT max_attempts[i] FROM unnest(n) AS i);
  ordered := ARRAY(SELECT ordered[i] FROM unnest(n) AS i);
  holds := ARRAY(SELECT holds[i] FROM unnest(n) AS i);
  headers := ARRAY(SELECT headers[i] FROM unnest(n) AS i);
  idempotency_keys := ARRAY(SELECT idempotency_keys[i] FROM unnest(n) AS i);
  RETURN QUERY SELECT s.row_id, s.outcome FROM tenure_door.put_many(route, routes, kinds, payloads, partition_keys, queues, priorities, ats, delays,
                                                                    max_attempts, ordered, holds, headers, idempotency_keys) AS s;
END
$$;

CREATE OR REPLACE FUNCTION tenure_door.enqueue(
  kind text, payload jsonb, partition_key text DEFAULT NULL, queue text DEFAULT NULL, priority int DEFAULT NULL,
  at timestamptz DEFAULT NULL, delay_seconds float8 DEFAULT 0, idempotency_key text DEFAULT NULL,
  max_attempts int DEFAULT NULL, ordered boolean DEFAULT NULL, hold boolean DEFAULT NULL,
  headers jsonb DEFAULT NULL, OUT row_id uuid, OUT outcome text
) LANGUAGE plpgsql AS $$
BEGIN
  SELECT s.row_id, s.outcome INTO row_id, outcome FROM tenure_door.send('given', kind, payload, partition_key, queue, priority, at,
    delay_seconds, max_attempts, ordered, hold, headers, idempotency_key, NULL) AS s;
END
$$;

CREATE OR REPLACE FUNCTION tenure_door.counts() RETURNS TABLE (inbox int, answers boolean, status text, n bigint) LANGUAGE plpgsql AS $$
DECLARE
  groups int[] := ARRAY(SELECT i.group_id FROM tenure_door.inboxes AS i);
BEGIN
  RETURN QUERY
  SELECT d.groupid, r.success, c.key, c.value::bigint
  FROM pg_catalog.run_command_on_all_nodes(
    $q$SELECT jsonb_object_agg(s.status, s.n) FROM (SELECT i.status, count(*) AS n FROM tenure.inbox AS i GROUP BY i.status) AS s$q$) AS r
  JOIN pg_catalog.pg_dist_node AS d ON d.nodeid = r.nodeid
  LEFT JOIN LATERAL jsonb_each_text(CASE WHEN r.success AND r.result <> '' THEN r.result::jsonb END) AS c ON true
  WHERE d.groupid = ANY (groups)
  ORDER BY 1, 3;
END
$$;

SELECT create_distributed_function(p.oid::regprocedure)
FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = 'tenure_door'::regnamespace AND p.proname NOT IN ('put', 'put_many', 'take_key', 'note_key');
SELECT create_distributed_function(p.oid::regprocedure, 'routing_key', colocate_with => 'tenure_door.keys', force_delegation => true)
FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = 'tenure_door'::regnamespace AND p.proname IN ('put', 'put_many', 'take_key', 'note_key');
