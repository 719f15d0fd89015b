-- Encrypted payloads under idempotency keys, and a retention for each queue.
-- kind: expand

-- What an idempotency key stands for: the payload; of an encrypted one its digest, because the same content is never encrypted
-- to the same bytes, and because its key may change between two sends.
CREATE FUNCTION tenure.content(payload jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN payload #>> '{$encrypted,digest}' IS NULL THEN payload::text
              ELSE jsonb_set(payload, '{$encrypted}', payload #> '{$encrypted,digest}')::text END
$$;

-- In enqueue_many as it stands, with what the roles have made of it.
DO $change$
DECLARE
  known text := pg_get_functiondef('tenure.enqueue_many'::regproc);
  changed text := replace(known, 's.kind || chr(31) || s.payload::text', 's.kind || chr(31) || tenure.content(s.payload)');
BEGIN
  IF changed = known THEN
    RAISE EXCEPTION 'enqueue_many does not hash what this migration changes';
  END IF;
  EXECUTE changed;
END
$change$;

-- How long the ended rows of a queue are kept; NULL: as long as housekeeping is told.
ALTER TABLE tenure.queues ADD COLUMN retention_seconds float8
  CONSTRAINT queues_retention CHECK (retention_seconds >= 3600 AND retention_seconds <= 315576000);

-- Which queues have nothing more in a day of the archive that stays for others. '': those without a retention of their own.
CREATE TABLE tenure.thinned (
  day      date NOT NULL,
  queue    text NOT NULL,
  settings text NOT NULL,  -- a hash of all retentions by then: under others the day is looked through again
  PRIMARY KEY (day, queue)
);

-- From when on the ended rows of each queue with a retention of its own are kept.
CREATE FUNCTION tenure.retentions() RETURNS TABLE (queue text, oldest timestamptz) LANGUAGE sql VOLATILE AS $$
  SELECT q.queue, clock_timestamp() - q.retention_seconds * interval '1 second'  -- implied: a transaction is short beside an hour
  FROM tenure.queues AS q
  WHERE q.retention_seconds IS NOT NULL  -- implied: nothing is older than NULL
$$;

-- The days of the archive that have a partition of their own.
CREATE FUNCTION tenure.days() RETURNS TABLE (relname name, day date) LANGUAGE sql STABLE AS $$
  SELECT c.relname, to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_inherits AS h JOIN pg_class AS c ON c.oid = h.inhrelid
  WHERE h.inhparent = 'tenure.archive'::regclass AND c.relname ~ '^archive_[0-9]{8}$'
$$;

-- Delete out of one day, up to n rows, what its queue no longer keeps, with their tape and effects; returns how many. A day is read
-- through until nothing is left to delete, and not again: nothing is added to a day that is over. A row that somebody has locked is
-- left, and so is its day, for the next round. The hash of the settings is read before them: a mark is never of later ones.
CREATE FUNCTION tenure.thin_day(part name, of_day date, usual timestamptz, n int) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  under text := (SELECT md5(COALESCE(string_agg(concat_ws(chr(31), q.queue, q.retention_seconds), chr(30) ORDER BY q.queue), ''))
                 FROM tenure.queues AS q WHERE q.retention_seconds IS NOT NULL);  -- implied: other settings are only another look
  own text[] := ARRAY(SELECT q.queue FROM tenure.queues AS q WHERE q.retention_seconds IS NOT NULL);
  due text[] := ARRAY(
    SELECT s.queue FROM tenure.retentions() AS s
    WHERE of_day < (s.oldest AT TIME ZONE 'UTC')::date
      AND NOT EXISTS (SELECT FROM tenure.thinned AS t WHERE t.day = of_day AND t.queue = s.queue  -- implied: spares the day another look
                                                        AND t.settings = under));
  others boolean := of_day < (usual AT TIME ZONE 'UTC')::date
    AND NOT EXISTS (SELECT FROM tenure.thinned AS t WHERE t.day = of_day AND t.queue = ''  -- implied: as above
                                                      AND t.settings = under);
  deleted bigint;
  seen bigint;
BEGIN
  IF due = '{}' AND NOT others THEN  -- implied: only spares the look
    RETURN 0;
  END IF;
  EXECUTE format($delete$
    WITH old AS MATERIALIZED (
      SELECT a.ctid AS place FROM tenure.%1$I AS a WHERE a.queue = ANY ($1) OR $2 AND a.queue <> ALL ($3) LIMIT $4
    ), gone AS (
      DELETE FROM tenure.%1$I WHERE ctid = ANY (ARRAY(
        SELECT a.ctid FROM tenure.%1$I AS a WHERE a.ctid = ANY (ARRAY(SELECT old.place FROM old)) FOR UPDATE SKIP LOCKED))
      RETURNING id
    ), tape AS (
      DELETE FROM tenure.attempts AS t USING gone WHERE t.row_id = gone.id
    ), marks AS (
      DELETE FROM tenure.effects AS e USING gone WHERE e.row_id = gone.id
    )
    SELECT count(*), (SELECT count(*) FROM old) FROM gone $delete$, part) INTO deleted, seen USING due, others, own, n;
  IF deleted = seen AND seen < n THEN
    INSERT INTO tenure.thinned (day, queue, settings)
    SELECT of_day, done.queue, under FROM unnest(due || CASE WHEN others THEN ARRAY[''] ELSE '{}' END) AS done (queue)  -- implied: spares the day another look
    ON CONFLICT (day, queue) DO UPDATE SET settings = EXCLUDED.settings;
  END IF;
  RETURN deleted;
END
$$;

-- To replace a function takes back what the roles have made of it; what they made of keep_archive is kept.
DO $kept$
BEGIN
  PERFORM set_config('tenure_inbox.kept', (SELECT f.prosecdef::text FROM pg_proc AS f
                                           WHERE f.oid = 'tenure.keep_archive(interval, interval, int)'::regprocedure), true);
END
$kept$;

-- Keep the archive: a partition for each coming day, days past every retention dropped whole, rows of queues with a shorter one
-- deleted out of the days that stay, and what belonged to rows long gone forgotten in batches. A day it cannot lock within a second is left to the next round. Whoever may call this has the
-- owner's hand: nothing that is younger than an hour is forgotten, whatever is asked, nor more than 10,000 at once.
CREATE OR REPLACE FUNCTION tenure.keep_archive(
  retention interval DEFAULT '14 days', key_retention interval DEFAULT '30 days', batch int DEFAULT 1000
) RETURNS TABLE (what text, n bigint) LANGUAGE plpgsql
  SET enable_bitmapscan = on  -- what a queue connection switches off, and the search by age needs
AS $$
#variable_conflict use_column
DECLARE
  today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;  -- implied: days are made three ahead
  usual timestamptz := clock_timestamp() - GREATEST(retention, interval '1 hour');
  oldest timestamptz := LEAST(usual, (SELECT min(s.oldest) FROM tenure.retentions() AS s));
  oldest_key timestamptz := clock_timestamp() - GREATEST(key_retention, interval '1 hour');
  most int := LEAST(batch, 10000);
  locked int := 0;
  day date;
  part record;
  name text;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('tenure archive ' || 'tenure.archive'::regclass::oid, 0)) THEN  -- implied: only spares the second the work
    RETURN;  -- somebody else is at it
  END IF;
  PERFORM set_config('lock_timeout', '1s', true);
  DELETE FROM tenure.archive_rest WHERE ctid = ANY (ARRAY(
    SELECT a.ctid FROM tenure.archive_rest AS a LEFT JOIN tenure.retentions() AS s ON s.queue = a.queue
    WHERE a.completed_at < COALESCE(s.oldest, usual) LIMIT most FOR UPDATE OF a SKIP LOCKED));
  GET DIAGNOSTICS n = ROW_COUNT; what := 'stray_rows_forgotten'; RETURN NEXT;

  WITH gone AS (
    DELETE FROM tenure.dead WHERE id = ANY (ARRAY(
      SELECT d.id FROM tenure.dead AS d LEFT JOIN tenure.retentions() AS s ON s.queue = d.queue
      WHERE d.status = 'cancelled' AND d.finished_at < COALESCE(s.oldest, usual)
      LIMIT most FOR UPDATE OF d SKIP LOCKED))
    RETURNING id
  ), tape AS (
    DELETE FROM tenure.attempts AS t USING gone WHERE t.row_id = gone.id
  ), marks AS (
    DELETE FROM tenure.effects AS e USING gone WHERE e.row_id = gone.id
  )
  SELECT count(*) INTO n FROM gone;
  what := 'cancelled_forgotten'; RETURN NEXT;

  DELETE FROM tenure.idempotency WHERE key = ANY (ARRAY(
    SELECT k.key FROM tenure.idempotency AS k
    WHERE k.created_at < oldest_key
      AND NOT EXISTS (SELECT FROM tenure.live AS i WHERE i.id = k.row_id)
      AND NOT EXISTS (SELECT FROM tenure.dead AS d WHERE d.id = k.row_id)
    LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS n = ROW_COUNT; what := 'idempotency_keys_forgotten'; RETURN NEXT;

  DELETE FROM tenure.attempts WHERE (row_id, fence_token) IN (
    SELECT t.row_id, t.fence_token FROM tenure.attempts AS t
    WHERE t.ended_at < oldest
      AND NOT EXISTS (SELECT FROM tenure.live AS i WHERE i.id = t.row_id)
      AND NOT EXISTS (SELECT FROM tenure.dead AS d WHERE d.id = t.row_id)
    LIMIT most);
  GET DIAGNOSTICS n = ROW_COUNT; what := 'attempts_forgotten'; RETURN NEXT;

  DELETE FROM tenure.effects WHERE (row_id, effect) IN (
    SELECT e.row_id, e.effect FROM tenure.effects AS e
    WHERE e.done_at < oldest
      AND NOT EXISTS (SELECT FROM tenure.live AS i WHERE i.id = e.row_id)
      AND NOT EXISTS (SELECT FROM tenure.dead AS d WHERE d.id = e.row_id)
    LIMIT most);
  GET DIAGNOSTICS n = ROW_COUNT; what := 'effects_forgotten'; RETURN NEXT;

  n := 0;
  FOR part IN
    SELECT d.relname, d.day FROM tenure.days() AS d
    WHERE d.day >= (oldest AT TIME ZONE 'UTC')::date  -- implied: what is older is dropped whole, below
      AND d.day < (GREATEST(usual, (SELECT max(s.oldest) FROM tenure.retentions() AS s)) AT TIME ZONE 'UTC')::date  -- implied: later days have nothing to delete
    ORDER BY d.day
  LOOP
    EXIT WHEN n >= most;  -- implied: with no room left a day loses nothing
    n := n + tenure.thin_day(part.relname, part.day, usual, most - n::int);
  END LOOP;
  what := 'rows_forgotten'; RETURN NEXT;

  -- Last, because from here to the end of the transaction a dropped day keeps completions waiting.
  n := 0;
  FOR day IN SELECT today + ahead FROM generate_series(0, 3) AS ahead LOOP
    name := 'archive_' || to_char(day, 'YYYYMMDD');
    CONTINUE WHEN to_regclass(format('tenure.%I', name)) IS NOT NULL;
    CONTINUE WHEN EXISTS (SELECT FROM tenure.archive_rest AS a
                          WHERE a.completed_at >= day::timestamp AT TIME ZONE 'UTC'
                            AND a.completed_at < (day + 1)::timestamp AT TIME ZONE 'UTC');
    BEGIN
      EXECUTE format('CREATE TABLE tenure.%I (LIKE tenure.archive INCLUDING ALL)', name);
      EXECUTE format('ALTER TABLE tenure.%I REPLICA IDENTITY FULL', name);
      -- Written out, not cast: a session's DateStyle and TimeZone have their own idea of a day.
      EXECUTE format('ALTER TABLE tenure.archive ATTACH PARTITION tenure.%I FOR VALUES FROM (%L) TO (%L)',
                     name, to_char(day, 'YYYY-MM-DD') || ' 00:00:00+00', to_char(day + 1, 'YYYY-MM-DD') || ' 00:00:00+00');
      n := n + 1;
    EXCEPTION
      WHEN lock_not_available
      THEN
        locked := locked + 1;
        EXIT;
      WHEN invalid_object_definition  -- a day made askew by an earlier version reaches into this one: archive_rest takes it
      THEN
        CONTINUE;
    END;
  END LOOP;
  what := 'partitions_made'; RETURN NEXT;

  n := 0;
  FOR part IN
    SELECT d.relname, d.day FROM tenure.days() AS d
    WHERE d.day < (oldest AT TIME ZONE 'UTC')::date
    ORDER BY d.day
  LOOP
    BEGIN
      EXECUTE format('DROP TABLE tenure.%I', part.relname);
      DELETE FROM tenure.thinned WHERE day = part.day;  -- implied: without it days are looked through again
      n := n + 1;
    EXCEPTION WHEN lock_not_available
    THEN
      locked := locked + 1;
      EXIT;
    END;
  END LOOP;
  what := 'partitions_dropped'; RETURN NEXT;
  n := locked; what := 'partitions_locked'; RETURN NEXT;
END
$$;

DO $kept$
BEGIN
  IF current_setting('tenure_inbox.kept')::boolean THEN
    ALTER FUNCTION tenure.keep_archive SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
  END IF;
END
$kept$;
