-- What a fleet needs inside the server: a channel to be woken by, a lock that shows who is there, and turns at the chores.
-- kind: expand

-- Named after the table, so that two schemas of one database do not wake each other.
CREATE FUNCTION tenure.channel() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT 'tenure_' || 'tenure.live'::regclass::oid
$$;

-- Wake whoever sleeps: "517 default" is for the owner of bucket 517, "* default" for everybody who serves the queue.
-- A note of latency only: what nobody hears is found by polling. SET tenure_inbox.notify = off silences a producer.
CREATE FUNCTION tenure.wake(queue text, bucket int) RETURNS void LANGUAGE sql VOLATILE AS $$
  SELECT pg_notify(tenure.channel(), COALESCE(bucket::text, '*') || ' ' || queue)
$$;

-- The advisory lock a worker's session holds while it is there.
CREATE FUNCTION tenure.presence_key(worker text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT hashtextextended('presence of ' || worker, 'tenure.workers'::regclass::oid::bigint)
$$;

-- The keys of all sessions that are there, read in one go: a look at pg_locks stops every other lock for a moment.
CREATE FUNCTION tenure.presences() RETURNS SETOF bigint LANGUAGE sql VOLATILE AS $$
  SELECT l.classid::bigint << 32 | l.objid::bigint
  FROM pg_locks AS l
  WHERE l.locktype = 'advisory'  -- implied: no other kind has this objsubid and these two halves of a hash
    AND l.objsubid = 1
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
$$;

-- Housekeeping, by whoever comes first when it is due. The stamp only saves work: every chore is safe to do twice at once.
CREATE TABLE tenure.chores (
  name          text        NOT NULL PRIMARY KEY,
  every_seconds float8      NOT NULL,
  ran_at        timestamptz NOT NULL DEFAULT '-infinity',
  ran_by        text
) WITH (fillfactor = 50);
INSERT INTO tenure.chores (name, every_seconds) VALUES
  ('fleet', 0.5), ('schedules', 1), ('leases', 2), ('workers', 10), ('every_row', 60), ('vacuum', 30), ('archive', 600);

-- The queues that hold ordered rows, by a loose walk of live_heads.
CREATE FUNCTION tenure.ordered_queues() RETURNS TABLE (queue text) LANGUAGE sql STABLE AS $$
  WITH RECURSIVE found AS (
    (SELECT i.queue FROM tenure.live AS i WHERE i.ordered ORDER BY i.queue LIMIT 1)
    UNION ALL
    SELECT further.queue FROM found CROSS JOIN LATERAL (
      SELECT i.queue FROM tenure.live AS i WHERE i.ordered AND i.queue > found.queue ORDER BY i.queue LIMIT 1) AS further
  )
  SELECT found.queue FROM found
$$;
