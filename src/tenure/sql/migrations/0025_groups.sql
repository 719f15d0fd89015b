-- Counted ends: many rows, one end. Each row of a group is counted in the statement that ends it, and the last one makes a follower due.
-- kind: expand

-- A group of rows, closed when it was sent: its size is known before its first row ends. What follows is a row that waits (then_row), or
-- another group whose rows wait (then_group). Nobody updates a shared row per end: groups are lowered only when a slot is empty.
CREATE TABLE tenure.groups (
  id              bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  size            int         NOT NULL,
  slots_open      int         NOT NULL,
  failed          int         NOT NULL DEFAULT 0,  -- this and cancelled: known when it has ended
  cancelled       int         NOT NULL DEFAULT 0,
  stop_on_failure boolean     NOT NULL DEFAULT false,  -- its first failure makes the follower due
  failing         boolean     NOT NULL DEFAULT false,  -- and that has happened
  opened_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended_at        timestamptz,
  then_row        uuid,
  then_group      bigint,
  name            text,
  members         uuid[]      NOT NULL  -- in the order in which they were sent
) WITH (fillfactor = 70);
CREATE INDEX groups_then_row ON tenure.groups (then_row) WHERE then_row IS NOT NULL;
CREATE INDEX groups_then_group ON tenure.groups (then_group) WHERE then_group IS NOT NULL;

-- Neighbours share a slot, so that a batch of ends touches one or two; 64 at most, so that workers do not wait for each other.
CREATE TABLE tenure.group_slots (
  group_id  bigint   NOT NULL,
  slot      smallint NOT NULL,
  open      int      NOT NULL CHECK (open >= 0),
  failed    int      NOT NULL DEFAULT 0,
  cancelled int      NOT NULL DEFAULT 0,
  PRIMARY KEY (group_id, slot)
) WITH (fillfactor = 50);

-- group << 6 | slot. Negative: of a group that had ended when the row was redriven; it is counted no more.
ALTER TABLE tenure.live ADD COLUMN counted bigint;
ALTER TABLE tenure.dead ADD COLUMN counted bigint;
ALTER TABLE tenure.archive ADD COLUMN counted bigint;

-- Make waiting rows due, and tell them how the group before them ended. Each is locked first, whatever its state: a row that is about
-- to be parked under that lock looks at its group afterwards, in a statement of its own, and sees that it has ended.
CREATE FUNCTION tenure.make_due(ids uuid[], told jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  of_queues text[];
  buckets int[];
BEGIN
  PERFORM FROM tenure.live AS i WHERE i.id = ANY (ids) ORDER BY i.id FOR UPDATE;
  WITH due AS (
    UPDATE tenure.live AS i
    SET available_at = clock_timestamp(), headers = COALESCE(i.headers, '{}') || told
    WHERE i.id = ANY (ids)
      AND i.status = 'pending'
    RETURNING i.id, i.queue, i.partition_key
  )
  SELECT array_agg(due.queue), array_agg(tenure.bucket(COALESCE(due.partition_key, due.id::text))) INTO of_queues, buckets FROM due;
  PERFORM tenure.rouse(of_queues, buckets);
END
$$;

-- The follower of a group, which has ended or has failed for the first time.
CREATE FUNCTION tenure.follow(of_group tenure.groups) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM tenure.make_due(
    ARRAY[of_group.then_row] || COALESCE((SELECT g.members FROM tenure.groups AS g WHERE g.id = of_group.then_group), '{}'),
    jsonb_build_object('tenure-batch', of_group.id::text, 'tenure-ended', of_group.size::text, 'tenure-failed', of_group.failed::text,
                       'tenure-cancelled', of_group.cancelled::text));
END
$$;

-- Count rows that end in this statement, each with the state it ends in (NULL for all: completed). Who brings a slot to 0 lowers its
-- group; who brings that to 0 ends it. Slots are locked in order, and all before the groups, so calls that only count never wait in a
-- circle. Two that end a parent beside a row of another group can: Postgres ends one of them, and nothing of it is counted. Each look
-- is a statement of its own, after the lock: it sees what others have counted. Returns the groups that have ended.
CREATE FUNCTION tenure.count_ends(counted bigint[], states text[]) RETURNS bigint[] LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  ended record;
  slots_left int;
  empty bigint[] := '{}';
  hurt bigint[] := '{}';
  of_group tenure.groups;
  over bigint[] := '{}';
BEGIN
  FOR ended IN
    SELECT e.mark >> 6 AS group_id, (e.mark & 63)::smallint AS slot, count(*) AS n,
           count(*) FILTER (WHERE e.state IN ('failed', 'dead_letter')) AS failed, count(*) FILTER (WHERE e.state = 'cancelled') AS cancelled
    FROM unnest(counted, states) AS e (mark, state)
    WHERE e.mark > 0  -- implied: no group has another number; spares the look
    GROUP BY 1, 2
    ORDER BY 1, 2
  LOOP
    UPDATE tenure.group_slots AS s
    SET open = s.open - ended.n, failed = s.failed + ended.failed, cancelled = s.cancelled + ended.cancelled
    WHERE s.group_id = ended.group_id AND s.slot = ended.slot
    RETURNING s.open INTO slots_left;
    IF slots_left = 0 THEN
      empty := empty || ended.group_id;
    END IF;
    IF ended.failed > 0 THEN
      hurt := hurt || ended.group_id;
    END IF;
  END LOOP;

  FOR ended IN
    SELECT e.id AS group_id, count(*) FILTER (WHERE e.empty) AS n, bool_or(NOT e.empty) AS hurt
    FROM (SELECT unnest(empty), true UNION ALL SELECT unnest(hurt), false) AS e (id, empty)
    GROUP BY e.id
    ORDER BY e.id
  LOOP
    UPDATE tenure.groups AS g
    SET slots_open = g.slots_open - ended.n, failing = g.failing OR ended.hurt AND g.stop_on_failure
    WHERE g.id = ended.group_id
      AND (ended.n > 0
           OR g.stop_on_failure AND NOT g.failing)
    RETURNING g.* INTO of_group;
    CONTINUE WHEN NOT FOUND;  -- implied: of_group is NULL then, and nothing below is true of it
    IF of_group.slots_open = 0 THEN
      UPDATE tenure.groups AS g SET ended_at = clock_timestamp(), failed = s.failed, cancelled = s.cancelled
      FROM (SELECT sum(s.failed) AS failed, sum(s.cancelled) AS cancelled FROM tenure.group_slots AS s WHERE s.group_id = of_group.id) AS s
      WHERE g.id = of_group.id
      RETURNING g.* INTO of_group;
      over := over || of_group.id;
      PERFORM tenure.follow(of_group);
    ELSIF of_group.stop_on_failure AND ended.hurt THEN
      PERFORM tenure.follow(of_group);
    END IF;
  END LOOP;
  RETURN over;
END
$$;

-- Count rows anew that come back from the dead letters, while their groups are open; those whose group has ended come back uncounted,
-- with a negative mark. Locks as above: the slot, then its group. A slot that is not empty keeps its group open by itself.
CREATE FUNCTION tenure.count_again(counted bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  was_open int;
BEGIN
  IF counted IS NULL OR counted < 0 THEN
    RETURN counted;
  END IF;
  UPDATE tenure.group_slots AS s SET open = s.open + 1, failed = s.failed - 1
  WHERE s.group_id = counted >> 6 AND s.slot = counted & 63
  RETURNING s.open - 1 INTO was_open;
  IF was_open > 0 THEN
    RETURN counted;
  END IF;
  IF was_open = 0 THEN
    UPDATE tenure.groups AS g SET slots_open = g.slots_open + 1
    WHERE g.id = counted >> 6
      AND g.ended_at IS NULL;
    IF FOUND THEN
      RETURN counted;
    END IF;
    UPDATE tenure.group_slots AS s SET open = s.open - 1, failed = s.failed + 1
    WHERE s.group_id = counted >> 6 AND s.slot = counted & 63;
  END IF;
  RETURN -counted;
END
$$;

-- A group and its rows, in the caller's own transaction. Without rows it has ended, and what follows is due.
CREATE FUNCTION tenure.enqueue_group(
  kinds text[], payloads jsonb[], partition_keys text[], queues text[], priorities smallint[], ats timestamptz[], delays float8[],
  max_attempts int[], ordered boolean[], holds boolean[], headers jsonb[], name text DEFAULT NULL, then_row uuid DEFAULT NULL,
  then_group bigint DEFAULT NULL, stop_on_failure boolean DEFAULT false, OUT group_id bigint, OUT ids uuid[]
) LANGUAGE plpgsql AS $$
DECLARE
  n int := COALESCE(cardinality(kinds), 0);
  slots int := LEAST(n, 64);
  made tenure.groups;
BEGIN
  IF n > 100000 THEN
    RAISE EXCEPTION 'a batch of % rows is too large, the limit is 100000: send several', n USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF octet_length(name) NOT BETWEEN 1 AND 128 THEN
    RAISE EXCEPTION '%', tenure.bytes_of('name', name, 128) USING ERRCODE = 'invalid_parameter_value';
  END IF;
  ids := ARRAY(SELECT tenure.new_id() FROM generate_series(1, n));
  INSERT INTO tenure.groups AS g (size, slots_open, stop_on_failure, then_row, then_group, name, members, ended_at)
  VALUES (n, slots, stop_on_failure, then_row, then_group, name, ids, CASE n WHEN 0 THEN clock_timestamp() END)
  RETURNING g.* INTO made;
  group_id := made.id;
  INSERT INTO tenure.group_slots (group_id, slot, open)
  SELECT made.id, (m.nth * slots / n)::smallint, count(*) FROM generate_series(0::bigint, n - 1) AS m (nth) GROUP BY 2;
  INSERT INTO tenure.live (id, kind, payload, partition_key, queue, priority, available_at, max_attempts, ordered, hold, headers, counted)
  SELECT s.id, s.kind, s.payload, s.partition_key, s.queue, s.priority,
         COALESCE(s.at, statement_timestamp() + s.delay * interval '1 second'), s.max_attempts, s.ordered, s.hold, s.headers,
         made.id << 6 | (s.nth - 1) * slots / n
  FROM unnest(ids, kinds, payloads, partition_keys, queues, priorities, ats, delays, max_attempts, ordered, holds, headers)
    WITH ORDINALITY AS s (id, kind, payload, partition_key, queue, priority, at, delay, max_attempts, ordered, hold, headers, nth);
  IF n = 0 THEN
    PERFORM tenure.follow(made);
  ELSIF EXISTS (SELECT FROM tenure.workers AS w WHERE w.waiting) AND COALESCE(current_setting('tenure_inbox.notify', true), '') <> 'off' THEN
    PERFORM tenure.wake_for(s.queue, NULL, bool_or(s.ordered)) FROM unnest(queues, ordered) AS s (queue, ordered) GROUP BY s.queue;
  END IF;
END
$$;

-- Whoever may enqueue may send groups, and whoever ends rows may count them, before roles are granted anew.
DO $rights$
DECLARE
  grantee text;
BEGIN
  IF (SELECT p.prosecdef FROM pg_proc AS p WHERE p.oid = 'tenure.enqueue_many'::regproc) THEN
    ALTER FUNCTION tenure.enqueue_group SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
  END IF;
  FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_proc AS p, aclexplode(p.proacl) AS a
                 WHERE p.oid = 'tenure.enqueue_many'::regproc AND a.grantee <> 0 LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenure.enqueue_group TO %s', grantee);
  END LOOP;
  FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_proc AS p, aclexplode(p.proacl) AS a
                 WHERE p.oid = 'tenure.wake'::regproc AND a.grantee <> 0 LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenure.count_ends, tenure.count_again TO %s', grantee);
  END LOOP;
END
$rights$;
