-- Limits per key, second design: the keys that have a row to start are rows of their own, found by when that row is due. A key
-- that is full is not among them, whatever waits there.
-- kind: contract

-- By key. Only searches that name a key can use it.
CREATE INDEX live_keyed ON tenure.live (queue, partition_key, priority, available_at) WHERE NOT ordered AND partition_key IS NOT NULL;
CREATE INDEX queues_per_key ON tenure.queues (queue) WHERE max_per_key IS NOT NULL;

-- Of a queue with a limit per key: a row for each key and priority where unordered rows wait. Only claims change it, under the
-- lock of the queue, after a look at the key. Everything in it can be found out from live and permits: it is a memory, not a truth.
CREATE TABLE tenure.key_lanes (
  queue         text        NOT NULL,
  partition_key text        NOT NULL,  -- '' stands for the rows without a key: no key is empty
  priority      smallint    NOT NULL,
  from_at       timestamptz NOT NULL,  -- no row that waits here is due before it
  due_at        timestamptz NOT NULL,  -- from when on it can start: never before the moment it was found; infinity: the key is full
  PRIMARY KEY (partition_key, queue, priority)
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
-- Its condition is always true, and the search for due lanes alone names it: no other can take this index.
CREATE INDEX key_lanes_due ON tenure.key_lanes (queue, priority, due_at) WHERE partition_key >= '';

-- The priorities of those lanes, and where to begin with each. A search passes no entries of lanes that are gone, also while somebody
-- holds a snapshot.
CREATE TABLE tenure.lane_priorities (
  queue    text        NOT NULL,
  priority smallint    NOT NULL,
  from_due timestamptz NOT NULL DEFAULT '-infinity',  -- no lane is due before it
  PRIMARY KEY (queue, priority)
);

-- Keys of such a queue where rows came or went back (then with their priority and time), or where one ended, since a claim last
-- looked. Written in the same transaction by whoever does that, and never waited for.
CREATE TABLE tenure.lane_arrivals (
  id            bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  queue         text   NOT NULL,
  partition_key text   NOT NULL,
  priority      smallint,
  available_at  timestamptz,  -- of the first of those rows
  PRIMARY KEY (queue, id)
) WITH (
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- Queues whose rows were read since their limits were set: rows that ran by then have their permits, and those that wait their key
-- lanes. Gone when a limit is set or taken away: then they are read anew.
CREATE TABLE tenure.limits_begun (
  queue    text        NOT NULL PRIMARY KEY,
  open     text[]      NOT NULL,  -- transactions that may have begun before: their rows come, and start, without a word
  again_at timestamptz NOT NULL,  -- while one of those is open, the rows are read again from this time on
  -- Arrivals up to from_id are dealt with. Those up to next_id will be once every transaction before next_xid is over: one that has
  -- drawn a number may commit late.
  from_id  bigint      NOT NULL DEFAULT 0,
  next_id  bigint      NOT NULL DEFAULT 0,
  next_xid bigint      NOT NULL DEFAULT 0
);

-- While somebody holds a snapshot, permits that were given back cannot be cleaned away, and whoever counts passes them all. So
-- they are given in eras: after a thousand or so a new one begins, and those still in use are moved there.
ALTER TABLE tenure.permits ADD COLUMN era int NOT NULL DEFAULT 0;
ALTER TABLE tenure.permits DROP CONSTRAINT permits_pkey;
ALTER TABLE tenure.permits ADD PRIMARY KEY (queue, partition_key, era, slot);
CREATE TABLE tenure.permit_eras (
  queue    text NOT NULL PRIMARY KEY,
  era      int  NOT NULL,  -- where permits are given
  from_era int  NOT NULL   -- no permit in use is of an earlier one
);

CREATE OR REPLACE FUNCTION tenure.note_arrivals() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM arrived AS a WHERE a.ordered) THEN  -- implied: spares the others the look
    INSERT INTO tenure.arrivals (queue, partition_key, seq)
    SELECT a.queue, a.partition_key, min(a.seq) FROM arrived AS a
    WHERE a.ordered AND a.partition_key IS NOT NULL  -- implied: live_key refuses a row without one
    GROUP BY a.queue, a.partition_key;
  END IF;
  IF EXISTS (SELECT FROM tenure.queues AS q WHERE q.max_per_key IS NOT NULL) THEN  -- implied: spares the others the look
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

-- A row that goes back to wait, or is moved, by us or by hand.
CREATE FUNCTION tenure.note_lane() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO tenure.lane_arrivals (queue, partition_key, priority, available_at)
  SELECT NEW.queue, COALESCE(NEW.partition_key, ''), NEW.priority, NEW.available_at
  WHERE EXISTS (SELECT FROM tenure.queues AS q
                WHERE q.queue = NEW.queue AND q.max_per_key IS NOT NULL);  -- implied: an arrival too many is no harm
  RETURN NULL;
END
$$;
CREATE TRIGGER live_lane AFTER UPDATE OF queue, partition_key, priority, available_at ON tenure.live
  FOR EACH ROW WHEN (NOT NEW.ordered) EXECUTE FUNCTION tenure.note_lane();

-- A slot of a key is free again.
CREATE FUNCTION tenure.note_freed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO tenure.lane_arrivals (queue, partition_key) VALUES (OLD.queue, OLD.partition_key);
  RETURN NULL;
END
$$;
CREATE TRIGGER permits_freed AFTER DELETE ON tenure.permits
  FOR EACH ROW WHEN (OLD.partition_key <> '') EXECUTE FUNCTION tenure.note_freed();

CREATE FUNCTION tenure.forget_limits() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM tenure.limits_begun AS b WHERE b.queue = OLD.queue;  -- implied: what is forgotten is read anew
  RETURN NULL;
END
$$;
CREATE TRIGGER queues_limits AFTER UPDATE OF max_running, max_per_key ON tenure.queues
  FOR EACH ROW WHEN (OLD.max_per_key IS DISTINCT FROM NEW.max_per_key OR (OLD.max_running IS NULL) <> (NEW.max_running IS NULL))
  EXECUTE FUNCTION tenure.forget_limits();
CREATE TRIGGER queues_gone AFTER DELETE ON tenure.queues FOR EACH ROW EXECUTE FUNCTION tenure.forget_limits();

-- From when on a lane is due that was found at this moment: not below it, so that none becomes due below where others begin; but for
-- a second in which they keep the order of their rows.
CREATE FUNCTION tenure.due_from(available_at timestamptz, moment timestamptz, from_last bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
  SELECT GREATEST(available_at, moment - LEAST(from_last * interval '1 microsecond', interval '1 second'))
$$;

-- Look anew at the lanes of these keys: is the key full, which row is the first to wait, when is it due? Its queue is locked.
CREATE FUNCTION tenure.look_at_lanes(of_queue text, keys text[], slots_per_key int, since_era int, moment timestamptz)
RETURNS void LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  WITH lane AS MATERIALIZED (
    SELECT l.ctid AS place, l.partition_key, l.priority, l.from_at, l.due_at, k.is_full
    FROM (SELECT u.partition_key,
                 u.partition_key <> ''
                   AND slots_per_key <= (SELECT count(*) FROM tenure.permits AS p
                                         WHERE p.queue = of_queue AND p.partition_key = u.partition_key
                                           AND p.era >= since_era) AS is_full  -- implied: none is of an earlier one
          FROM unnest(keys) AS u (partition_key)) AS k
    CROSS JOIN LATERAL (
      SELECT n.ctid, n.partition_key, n.priority, n.from_at, n.due_at FROM tenure.key_lanes AS n
      WHERE n.partition_key = k.partition_key AND n.queue = of_queue
      OFFSET 0) AS l
  ), seen AS MATERIALIZED (
    SELECT lane.place, lane.from_at AS old_from, lane.due_at AS old_due,
           CASE WHEN lane.is_full THEN lane.from_at ELSE first.available_at END AS from_at,
           CASE WHEN lane.is_full THEN 'infinity'
                WHEN first.available_at <= lane.due_at AND lane.due_at <= moment THEN lane.due_at  -- it keeps its place
                ELSE tenure.due_from(first.available_at, moment, row_number() OVER (ORDER BY first.available_at DESC)) END AS due_at
    FROM lane
    LEFT JOIN LATERAL (
      (SELECT r.available_at FROM tenure.live AS r
       WHERE NOT r.ordered AND r.queue = of_queue AND r.partition_key = lane.partition_key AND r.priority = lane.priority
         AND r.available_at >= lane.from_at  -- implied: none waits before it; spares the look at those gone
         AND r.status = 'pending'
         AND NOT lane.is_full  -- implied: spares the look
       ORDER BY r.available_at LIMIT 1)
      UNION ALL
      -- Rows without a key stand among the others: of a thousand, the first that has none, or else how far this look has come.
      (SELECT COALESCE(min(r.available_at) FILTER (WHERE r.partition_key IS NULL), max(r.available_at) FILTER (WHERE r.nth = 1000))
       FROM (SELECT r.available_at, r.partition_key, row_number() OVER (ORDER BY r.available_at) AS nth
             FROM (SELECT r.available_at, r.partition_key FROM tenure.live AS r
                   WHERE NOT r.ordered  -- implied: a row in order has a key; lets live_due serve
                     AND r.seq < 9223372036854775807  -- implied: always so; lets live_due serve and no other index
                     AND r.queue = of_queue AND r.priority = lane.priority
                     AND r.available_at >= lane.from_at  -- implied: as above
                     AND r.status = 'pending'
                     AND lane.partition_key = ''  -- implied: spares the look, HAVING says the same
                   ORDER BY r.available_at LIMIT 1000) AS r) AS r
       HAVING lane.partition_key = '')
    ) AS first ON true
  ), gone AS (
    DELETE FROM tenure.key_lanes AS n USING seen WHERE n.ctid = seen.place AND seen.from_at IS NULL
  )
  UPDATE tenure.key_lanes AS n SET from_at = seen.from_at, due_at = seen.due_at FROM seen
  WHERE n.ctid = seen.place
    AND seen.from_at IS NOT NULL  -- implied: those that gone deletes
    AND (seen.old_from, seen.old_due) <> (seen.from_at, seen.due_at);  -- implied: spares the write
END
$$;

-- No transaction from this one on had begun. A snapshot alone does not know it: those that are open may come after the last that
-- has ended. Each of them holds a lock on its own number, in 32 bits.
CREATE FUNCTION tenure.next_transaction() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT GREATEST(ended.next, (
    SELECT max(ended.next + ((l.transactionid::text::bigint - ended.next + 2147483648) & 4294967295) - 2147483647)
    FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'transactionid'))  -- implied: the others have no number
  FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next) AS ended
$$;

-- Look at the keys of this queue where something has changed since the last look. The queue is locked.
CREATE FUNCTION tenure.refresh_lanes(of_queue text, slots_per_key int, since_era int, moment timestamptz) RETURNS void LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  fill record;
  after bigint;
  arrived record;
  enough boolean;
BEGIN
  SELECT f.from_id, f.next_id,
         pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= f.next_xid AS all_over  -- implied: one later is as good
  INTO fill
  FROM tenure.limits_begun AS f WHERE f.queue = of_queue;
  after := fill.from_id;
  FOR page IN 1 .. 20 LOOP
    SELECT array_agg(a.id) AS ids, array_agg(a.partition_key) AS keys, array_agg(a.priority) AS priorities,
           array_agg(a.available_at) AS times, max(a.id) AS last INTO arrived
    FROM (SELECT n.id, n.partition_key, n.priority, n.available_at FROM tenure.lane_arrivals AS n
          WHERE n.queue = of_queue  -- implied: lanes too many are looked at and go
            AND n.id > after  -- implied: those before are dealt with
          ORDER BY n.id LIMIT 2000) AS a;
    EXIT WHEN arrived.last IS NULL;  -- implied: spares the rest
    INSERT INTO tenure.key_lanes AS n (queue, partition_key, priority, from_at, due_at)
    SELECT of_queue, a.partition_key, a.priority, min(a.available_at), 'infinity'
    FROM unnest(arrived.keys, arrived.priorities, arrived.times) AS a (partition_key, priority, available_at)
    WHERE a.priority IS NOT NULL
    GROUP BY a.partition_key, a.priority
    ON CONFLICT (partition_key, queue, priority) DO UPDATE SET from_at = EXCLUDED.from_at
    WHERE n.from_at > EXCLUDED.from_at;
    INSERT INTO tenure.lane_priorities (queue, priority)
    SELECT DISTINCT of_queue, a.priority FROM unnest(arrived.priorities) AS a (priority)
    WHERE a.priority IS NOT NULL
    ON CONFLICT DO NOTHING;
    -- A statement of its own: it sees what was committed before the queue was locked.
    PERFORM tenure.look_at_lanes(of_queue, ARRAY(SELECT DISTINCT a.partition_key FROM unnest(arrived.keys) AS a (partition_key)),
                                 slots_per_key, since_era, moment);
    DELETE FROM tenure.lane_arrivals AS n
    WHERE n.queue = of_queue  -- implied: a number is given once
      AND n.id > after AND n.id <= arrived.last  -- implied: all are there; passes what is gone
      AND n.id = ANY (arrived.ids);
    after := arrived.last;
  END LOOP;
  enough := after >= fill.next_id + 500;  -- implied: when, not whether
  IF fill.all_over AND enough THEN
    UPDATE tenure.limits_begun AS f SET from_id = f.next_id, next_id = after, next_xid = tenure.next_transaction()
    WHERE f.queue = of_queue;
    PERFORM tenure.begin_lanes(of_queue, moment);
  END IF;
END
$$;

-- Find out where the lanes of each priority begin by now. A priority without lanes is forgotten. The queue is locked.
CREATE FUNCTION tenure.begin_lanes(of_queue text, moment timestamptz) RETURNS void LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  known record;
  first_due timestamptz;
BEGIN
  FOR known IN SELECT n.priority, n.from_due FROM tenure.lane_priorities AS n WHERE n.queue = of_queue LOOP
    SELECT min(l.due_at) INTO first_due FROM tenure.key_lanes AS l
    WHERE l.queue = of_queue AND l.priority = known.priority
      AND l.partition_key >= ''  -- implied: always so; lets key_lanes_due serve
      AND l.due_at >= known.from_due;  -- implied: none is due before it; passes those gone
    DELETE FROM tenure.lane_priorities AS n WHERE n.queue = of_queue AND n.priority = known.priority AND first_due IS NULL;
    UPDATE tenure.lane_priorities AS n SET from_due = LEAST(first_due, moment) - interval '2 seconds'
    WHERE n.queue = of_queue AND n.priority = known.priority;
  END LOOP;
END
$$;

-- The transactions that are open now, by the locks on themselves and on those they wait for: everybody may see them, and who is in no
-- transaction has none. A prepared one has another name after a restart: it counts under the name of all prepared ones, too.
CREATE FUNCTION tenure.open_transactions() RETURNS text[] LANGUAGE sql STABLE AS $$
  SELECT ARRAY(SELECT DISTINCT name.open FROM pg_catalog.pg_locks AS l
               CROSS JOIN LATERAL (VALUES (l.virtualtransaction),
                                          (CASE WHEN l.pid IS NULL THEN 'prepared' ELSE l.virtualtransaction END)) AS name (open)
               WHERE l.locktype IN ('virtualxid', 'transactionid'))
$$;

-- Give rows of this queue that run without a permit one each of the queue and of their key, as far as these are limited. A row that
-- ends at this moment needs none. The queue is locked.
CREATE FUNCTION tenure.adopt_running(of_queue text, slots_in_all int, slots_per_key int, in_era int) RETURNS void LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  WITH running AS MATERIALIZED (
    SELECT i.id, i.partition_key FROM tenure.live AS i
    WHERE i.id = ANY (ARRAY(SELECT DISTINCT unnest(c.ids) FROM tenure.claims AS c))  -- implied: what runs is listed; spares the look at all rows
      AND i.queue = of_queue
      AND i.status = 'processing'
    FOR UPDATE SKIP LOCKED
  ), marked AS (
    UPDATE tenure.live AS i SET limited = true FROM running
    WHERE i.id = running.id
      AND NOT i.limited  -- implied: spares the write
  )
  INSERT INTO tenure.permits (queue, partition_key, era, slot, row_id)
  SELECT of_queue, s.partition_key, in_era,
         (SELECT COALESCE(max(p.slot), 0) FROM tenure.permits AS p WHERE p.queue = of_queue AND p.partition_key = s.partition_key)
           + row_number() OVER (PARTITION BY s.partition_key), running.id
  FROM running
  CROSS JOIN LATERAL (VALUES ('', slots_in_all), (running.partition_key, slots_per_key)) AS s (partition_key, slots)
  WHERE s.slots IS NOT NULL
    AND s.partition_key IS NOT NULL
    AND NOT EXISTS (SELECT FROM tenure.permits AS p WHERE p.row_id = running.id AND p.partition_key = s.partition_key);
END
$$;

-- Read the rows of this queue if that was not done since its limits were set, and again, at most for a fiftieth of the time, while a
-- transaction is open that may have begun before. The queue is locked.
CREATE FUNCTION tenure.begin_limits(of_queue text, slots_in_all int, slots_per_key int, in_era int, moment timestamptz)
RETURNS void LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  begun record;
  still_open text[];
  started timestamptz := clock_timestamp();  -- implied: a measure of effort
BEGIN
  SELECT b.open, b.again_at INTO begun FROM tenure.limits_begun AS b WHERE b.queue = of_queue;
  IF begun.open = '{}' OR begun.again_at BETWEEN started AND started + interval '1 minute' THEN  -- implied: spares reading the rows again
    RETURN;
  END IF;
  still_open := CASE WHEN begun IS NULL THEN tenure.open_transactions()
                     ELSE ARRAY(SELECT unnest(begun.open || 'prepared'::text) INTERSECT SELECT unnest(tenure.open_transactions())) END;
  PERFORM tenure.adopt_running(of_queue, slots_in_all, slots_per_key, in_era);
  IF slots_per_key IS NOT NULL THEN  -- implied: lanes that no limit asks for are not read
    PERFORM tenure.fill_lanes(of_queue, moment, anew => begun IS NULL);
  END IF;
  INSERT INTO tenure.limits_begun AS b (queue, open, again_at)
  VALUES (of_queue, still_open,
          clock_timestamp() + LEAST(interval '1 second' + 50 * (clock_timestamp() - started), interval '1 minute'))  -- implied: a measure of effort
  ON CONFLICT (queue) DO UPDATE SET open = EXCLUDED.open, again_at = EXCLUDED.again_at;
END
$$;

-- Read the key lanes of this queue from its rows. The queue is locked.
CREATE FUNCTION tenure.fill_lanes(of_queue text, moment timestamptz, anew boolean) RETURNS void LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  IF anew THEN  -- implied: lanes too many are looked at and go
    DELETE FROM tenure.key_lanes AS n
    WHERE n.queue = of_queue
      AND n.partition_key >= '';  -- implied: always so; lets key_lanes_due serve
    DELETE FROM tenure.lane_priorities AS n WHERE n.queue = of_queue;
  END IF;
  INSERT INTO tenure.key_lanes AS n (queue, partition_key, priority, from_at, due_at)
  SELECT of_queue, r.partition_key, r.priority, r.first, tenure.due_from(r.first, moment, row_number() OVER (ORDER BY r.first DESC))
  FROM (SELECT i.partition_key, i.priority, min(i.available_at) AS first FROM tenure.live AS i
        WHERE NOT i.ordered AND i.queue = of_queue AND i.partition_key IS NOT NULL AND i.status = 'pending'  -- implied: lanes too many are looked at and go
        GROUP BY i.partition_key, i.priority
        UNION ALL
        SELECT '', i.priority, min(i.available_at) FROM tenure.live AS i
        WHERE NOT i.ordered AND i.seq < 9223372036854775807 AND i.queue = of_queue AND i.partition_key IS NULL AND i.status = 'pending'  -- implied: as above
        GROUP BY i.priority) AS r
  ON CONFLICT (partition_key, queue, priority) DO UPDATE
  SET from_at = EXCLUDED.from_at, due_at = LEAST(n.due_at, EXCLUDED.due_at)  -- implied: a full key is looked at and stands at infinity again
  WHERE n.from_at > EXCLUDED.from_at;  -- implied: spares the write
  INSERT INTO tenure.lane_priorities (queue, priority)
  SELECT DISTINCT of_queue, n.priority FROM tenure.key_lanes AS n
  WHERE n.queue = of_queue
    AND n.partition_key >= ''  -- implied: as above
  ON CONFLICT DO NOTHING;
END
$$;

-- Lanes of this queue where a row could start now, up to n: the most urgent first, then what has been due longest.
CREATE FUNCTION tenure.due_lanes(of_queue text, n int, moment timestamptz) RETURNS SETOF tenure.key_lanes LANGUAGE plpgsql STABLE
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  RETURN QUERY
  SELECT due.* FROM unnest(ARRAY(
    SELECT p FROM tenure.lane_priorities AS p WHERE p.queue = of_queue ORDER BY p.priority DESC)) AS known
  CROSS JOIN LATERAL (
    SELECT l.* FROM tenure.key_lanes AS l
    WHERE l.queue = of_queue AND l.priority = known.priority
      AND l.partition_key >= ''  -- implied: always so; lets key_lanes_due serve
      AND l.due_at >= known.from_due  -- implied: none is due before it; passes those gone
      AND l.due_at <= moment
    ORDER BY l.due_at LIMIT n) AS due
  LIMIT n;
END
$$;

-- Lock up to n rows of each of these lanes that could start now.
CREATE FUNCTION tenure.lock_lane_rows(of_queue text, keys text[], priorities smallint[], froms timestamptz[], n int, moment timestamptz)
RETURNS SETOF uuid LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  RETURN QUERY
  SELECT due.id FROM unnest(keys, priorities, froms) AS lane (partition_key, priority, from_at)
  CROSS JOIN LATERAL (
    SELECT r.id FROM tenure.live AS r
    WHERE NOT r.ordered AND r.queue = of_queue AND r.partition_key = lane.partition_key
      AND r.priority = lane.priority  -- implied: the lane of another priority would give the same row
      AND r.available_at >= lane.from_at  -- implied: none waits before it; spares the look at those gone
      AND r.available_at <= moment
      AND r.status = 'pending'
    ORDER BY r.available_at LIMIT n
    FOR UPDATE SKIP LOCKED) AS due;
  RETURN QUERY
  SELECT due.id FROM unnest(keys, priorities, froms) AS lane (partition_key, priority, from_at)
  CROSS JOIN LATERAL (
    SELECT r.id FROM tenure.live AS r
    WHERE NOT r.ordered  -- implied: a row in order has a key; lets live_due serve
      AND r.seq < 9223372036854775807  -- implied: always so; lets live_due serve and no other index
      AND r.queue = of_queue AND r.partition_key IS NULL
      AND r.priority = lane.priority  -- implied: as above
      AND r.available_at >= lane.from_at  -- implied: as above
      AND r.available_at <= moment
      AND r.status = 'pending'
    ORDER BY r.available_at LIMIT n
    FOR UPDATE SKIP LOCKED) AS due
  WHERE lane.partition_key = '';  -- implied: rows without a key could start as well
END
$$;

-- Lock up to n unordered rows of a queue that could start now, whatever their keys: the most urgent first, then what has been due
-- longest. The search of a priority begins at its floor.
CREATE FUNCTION tenure.lock_due_rows(of_queue text, priorities smallint[], floors float8[], n int, moment timestamptz)
RETURNS SETOF uuid LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
  RETURN QUERY
  SELECT due.id FROM unnest(COALESCE(priorities, ARRAY(SELECT tenure.priorities(of_queue))), floors) AS lane (priority, floor)
  CROSS JOIN LATERAL (
    SELECT r.id FROM tenure.live AS r
    WHERE NOT r.ordered
      AND r.seq < 9223372036854775807  -- implied: always so; lets live_due serve and no other index
      AND r.queue = of_queue AND r.priority = lane.priority
      AND r.available_at >= COALESCE(tenure.since(lane.floor), '-infinity')  -- implied: a floor only saves work
      AND r.available_at <= moment
      AND r.status = 'pending'
    ORDER BY r.available_at LIMIT n
    FOR UPDATE SKIP LOCKED) AS due
  LIMIT n;
END
$$;

-- Which of these rows may start: the n first of them whose key has a slot left. A row without a key has no such limit.
DROP FUNCTION tenure.admitted(text, uuid[], int, int);
CREATE FUNCTION tenure.admitted(of_queue text, candidates uuid[], slots_per_key int, n int, since_era int) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
  SELECT c.id
  FROM (SELECT i.id, i.priority, i.available_at, i.seq, i.partition_key,
               row_number() OVER (PARTITION BY i.partition_key ORDER BY i.priority DESC, i.available_at, i.seq) AS nth
        FROM tenure.live AS i WHERE i.id = ANY (candidates)) AS c
  WHERE slots_per_key IS NULL OR c.partition_key IS NULL
     OR c.nth + (SELECT count(*) FROM tenure.permits AS p
                 WHERE p.queue = of_queue AND p.partition_key = c.partition_key
                   AND p.era >= since_era  -- implied: none is of an earlier one
                ) <= slots_per_key
  ORDER BY c.priority DESC, c.available_at, c.seq
  LIMIT n
$$;

-- Give each of these rows a slot of the queue and one of its key, where those are limited: the lowest that are free.
DROP FUNCTION tenure.give_permits(text, uuid[], int, int);
CREATE FUNCTION tenure.give_permits(of_queue text, rows uuid[], slots_in_all int, slots_per_key int, since_era int, in_era int)
RETURNS void LANGUAGE sql VOLATILE AS $$
  INSERT INTO tenure.permits (queue, partition_key, era, slot, row_id)
  SELECT of_queue, scope.partition_key, in_era, given.slot, given.id
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
    SELECT p.slot FROM tenure.permits AS p
    WHERE p.queue = of_queue AND p.partition_key = scope.partition_key
      AND p.era >= since_era  -- implied: none is of an earlier one
    ORDER BY 1
    LIMIT cardinality(scope.ids)
  )) AS given (id, slot)
$$;

-- Begin a new era of a queue's permits. A permit that is just being given back is not waited for: it stays where it is, and so
-- does the beginning of what is counted. The queue is locked.
CREATE FUNCTION tenure.begin_era(of_queue text) RETURNS void LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  old record;
BEGIN
  SELECT COALESCE(max(e.era), 0) AS era, COALESCE(max(e.from_era), 0) AS from_era INTO old
  FROM tenure.permit_eras AS e WHERE e.queue = of_queue;
  UPDATE tenure.permits AS p SET era = old.era + 1
  WHERE p.ctid = ANY (ARRAY(
    SELECT n.ctid FROM tenure.permits AS n
    WHERE n.queue = of_queue  -- implied: those of others count in any era
      AND n.era >= old.from_era  -- implied: none is of an earlier one
    FOR UPDATE SKIP LOCKED));
  INSERT INTO tenure.permit_eras (queue, era, from_era)
  SELECT of_queue, old.era + 1,
         CASE WHEN EXISTS (SELECT FROM tenure.permits AS n
                           WHERE n.queue = of_queue  -- implied: counting may begin too early
                             AND n.era BETWEEN old.from_era AND old.era)
              THEN old.from_era ELSE old.era + 1 END
  ON CONFLICT (queue) DO UPDATE SET era = EXCLUDED.era, from_era = EXCLUDED.from_era;
END
$$;

-- A claim by key or within limits must see what was committed before it had its locks.
CREATE FUNCTION tenure.must_read_committed() RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'a claim of ordered keys or within limits needs READ COMMITTED, not %', upper(current_setting('transaction_isolation'))
      USING ERRCODE = 'feature_not_supported', HINT = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED.';
  END IF;
END
$$;

-- Claim from one queue within its limits, ordered rows and others alike. The queue's row is locked first, until the transaction
-- ends: its claims go one by one, and what one of them counts can only shrink. Rows are never waited for. What can start is asked
-- for in turns, each time for twice as many keys: some may turn out to be full, and their rows to be locked.
DROP FUNCTION tenure.claim_limited(text, int, text, bigint, float8, int);
DROP FUNCTION tenure.due_by_time(text, int);
DROP FUNCTION tenure.due_by_bucket(text, int, int);
CREATE FUNCTION tenure.claim_limited(
  of_queue text, most int, for_worker text, under_claim bigint, lease_seconds float8, seen_epoch int,
  of_priorities smallint[] DEFAULT NULL, floors float8[] DEFAULT NULL, from_arrival bigint DEFAULT 0, from_due timestamptz DEFAULT '-infinity'
) RETURNS TABLE (
  id uuid, kind text, queue text, partition_key text, partition_bucket int, payload text, attempts int, max_attempts int,
  available_seconds float8, lease_generation bigint, fence_token bigint, ends_seconds float8, headers text, seq bigint
) LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
  limits record;
  moment timestamptz;
  tokens_now float8;
  eras record;
  running int;
  room int;
  missing int;
  lanes record;
  keys_due record;
  candidates uuid[];
  chosen uuid[];
  fence bigint;
BEGIN
  PERFORM tenure.must_read_committed();
  SELECT q.paused, q.max_running, q.max_per_key, q.rate_per_second, q.burst, q.tokens, q.refilled_at INTO limits
  FROM tenure.queues AS q WHERE q.queue = of_queue
  FOR UPDATE;
  IF NOT FOUND AND EXISTS (SELECT FROM tenure.queues AS q WHERE q.queue = of_queue) THEN
    RETURN;  -- its settings were deleted and made anew while this claim waited for them
  END IF;
  IF limits.paused OR EXISTS (SELECT FROM tenure.workers AS w WHERE w.id = for_worker AND (w.status <> 'alive' OR w.gone_at IS NOT NULL)) THEN
    RETURN;
  END IF;

  moment := clock_timestamp();
  IF limits.refilled_at > moment THEN  -- the clock was set back: what it earns counts from here
    UPDATE tenure.queues AS q SET refilled_at = moment WHERE q.queue = of_queue;
    limits.refilled_at := moment;
  END IF;
  tokens_now := tenure.refilled(limits.tokens, limits.rate_per_second, limits.burst, moment - limits.refilled_at);
  SELECT COALESCE(max(e.era), 0) AS given, COALESCE(max(e.from_era), 0) AS first INTO eras FROM tenure.permit_eras AS e WHERE e.queue = of_queue;
  IF limits.max_running IS NOT NULL OR limits.max_per_key IS NOT NULL THEN
    PERFORM tenure.begin_limits(of_queue, limits.max_running, limits.max_per_key, eras.given, moment);
  END IF;
  running := (SELECT count(*) FROM tenure.permits AS p
              WHERE p.queue = of_queue AND p.partition_key = ''
                AND p.era >= eras.first);  -- implied: none is of an earlier one
  room := LEAST(most, floor(tokens_now), limits.max_running - running);
  IF room < 1 THEN
    RETURN;
  END IF;

  IF limits.max_per_key IS NOT NULL THEN
    UPDATE tenure.lane_priorities AS n SET from_due = '-infinity'  -- the clock was set back
    WHERE n.queue = of_queue AND n.from_due > moment - interval '1 second';
    PERFORM tenure.refresh_lanes(of_queue, limits.max_per_key, eras.first, moment);
  END IF;
  PERFORM tenure.refresh_heads(ARRAY[of_queue], from_arrival);
  missing := room;
  FOR turn IN 1 .. 20 LOOP
    SELECT array_agg(l.partition_key) AS keys, array_agg(l.priority) AS priorities, array_agg(l.from_at) AS froms INTO lanes
    FROM tenure.due_lanes(of_queue, missing * (1 << (turn - 1)), moment) AS l
    WHERE limits.max_per_key IS NOT NULL;  -- implied: lanes left from an earlier limit give no rows
    candidates := CASE
      WHEN limits.max_per_key IS NOT NULL THEN
        ARRAY(SELECT tenure.lock_lane_rows(of_queue, lanes.keys, lanes.priorities, lanes.froms,
                                           ceil(missing::float8 / cardinality(lanes.keys))::int, moment))
      WHEN turn = 1 THEN ARRAY(SELECT tenure.lock_due_rows(of_queue, of_priorities, floors, missing, moment))
      ELSE '{}' END;
    SELECT array_agg(h.queue) AS queues, array_agg(h.partition_key) AS keys, array_agg(h.bucket) AS buckets,
           array_agg(h.from_seq) AS froms, array_agg(h.begun_seq) AS begun, array_agg(h.begun_to) AS begun_to INTO keys_due
    FROM tenure.due_heads(ARRAY[of_queue], NULL, missing * (1 << (turn - 1)), moment, from_due, '{}') AS h;
    -- A statement of its own: it sees what was committed before the heads were locked.
    candidates := candidates || ARRAY(
      SELECT r.id FROM tenure.live AS r
      WHERE r.id = ANY (ARRAY(
              SELECT next.id FROM unnest(keys_due.keys, keys_due.buckets, keys_due.froms, keys_due.begun) AS h (partition_key, bucket, from_seq, begun_seq)
              CROSS JOIN LATERAL (
                SELECT n.id, n.attempts FROM tenure.live AS n
                WHERE n.ordered AND n.queue = of_queue AND n.partition_key = h.partition_key
                  AND tenure.bucket(n.partition_key) = h.bucket  -- implied: a key has one; lets live_heads serve
                  AND n.seq >= COALESCE(h.begun_seq, h.from_seq)
                ORDER BY n.seq LIMIT 1) AS next
              -- As in claim_ordered.
              WHERE h.begun_seq IS NOT NULL AND next.attempts > 0
                 OR h.begun_seq IS NULL AND NOT EXISTS (
                                SELECT FROM tenure.arrivals AS a
                                WHERE a.partition_key = h.partition_key AND a.queue = of_queue
                                  AND a.id >= from_arrival  -- implied: those before are looked at; passes what is gone
                                  AND a.seq < h.from_seq)))
        AND r.status = 'pending'
        AND r.available_at <= moment
      FOR UPDATE SKIP LOCKED);
    chosen := ARRAY(SELECT tenure.admitted(of_queue, candidates, limits.max_per_key, missing, eras.first));
    EXIT WHEN chosen = '{}' AND lanes.keys IS NULL AND keys_due.keys IS NULL;  -- implied: spares the other turns

    PERFORM tenure.give_permits(of_queue, chosen, limits.max_running, limits.max_per_key, eras.first, eras.given);
    UPDATE tenure.heads AS h SET run_from = i.seq, run_to = i.seq FROM tenure.live AS i
    WHERE i.id = ANY (chosen) AND i.ordered AND h.queue = of_queue AND h.partition_key = i.partition_key;
    IF chosen <> '{}' THEN
      fence := COALESCE(fence, tenure.next_fence(seen_epoch));
    END IF;
    RETURN QUERY
    UPDATE tenure.live AS i
    SET status = 'processing',
        claimed_by = for_worker,
        claimed_at = moment,
        lease_expires_at = moment + lease_seconds * interval '1 second',
        lease_generation = i.lease_generation + 1,
        fence_token = fence,
        claim_id = under_claim,
        attempts = i.attempts + 1,
        limited = true
    WHERE i.id = ANY (chosen)
    RETURNING i.id, i.kind, i.queue, COALESCE(i.partition_key, i.id::text), tenure.bucket(COALESCE(i.partition_key, i.id::text)), i.payload::text,
              i.attempts, i.max_attempts, date_part('epoch', i.available_at), i.lease_generation, i.fence_token,
              date_part('epoch', i.lease_expires_at), i.headers::text, i.seq;
    missing := missing - cardinality(chosen);

    -- What was asked for is looked at anew: it may be full now, or gone.
    PERFORM tenure.look_at_lanes(of_queue, ARRAY(SELECT DISTINCT unnest(lanes.keys)), limits.max_per_key, eras.first, moment);
    PERFORM tenure.look_at(array_agg(h.queue), array_agg(h.partition_key), array_agg(h.bucket), array_agg(h.from_seq),
                           array_agg(h.begun_seq), array_agg(h.begun_to), array_agg(NULL::bigint), array_agg(NULL::bigint))
    FROM unnest(keys_due.queues, keys_due.keys, keys_due.buckets, keys_due.froms, keys_due.begun, keys_due.begun_to)
      AS h (queue, partition_key, bucket, from_seq, begun_seq, begun_to)
    WHERE h.partition_key NOT IN (SELECT i.partition_key FROM tenure.live AS i WHERE i.id = ANY (chosen) AND i.ordered);  -- implied: spares the look at those just taken
    EXIT WHEN missing < 1;  -- implied: zero rows are asked for
  END LOOP;

  IF random() * 1000 < room - missing THEN
    PERFORM tenure.begin_era(of_queue);
  END IF;
  UPDATE tenure.queues AS q SET tokens = tokens_now - (room - missing), refilled_at = moment
  WHERE q.queue = of_queue
    AND q.burst IS NOT NULL;  -- implied: without a rate there are no tokens to count; spares the write
END
$$;
