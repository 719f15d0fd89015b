-- What stands beside the inbox: servers that come back as others, readers of the log, sessions with their own calendars.
-- kind: expand

-- A running server can copy a whole database, oids and all: the copy has another folder. NULL: the first claim notes it.
ALTER TABLE tenure.incarnation ADD COLUMN stored_in text;

-- The next fence token: epoch << 40 | sequence. Monotone across rows by the sequence, and across failover, restore, promotion
-- and crash by where each start begins. While a server runs it stays the same; one that was started since the last
-- claim may be a copy put back, and nothing in it would say so. A caller that has seen a higher epoch is talking to a stale
-- primary: it gets an error and no row.
--
-- A start begins at its time, 2^22 fences a second from 2026 on, so that the later of two is above the earlier whatever either
-- has forgotten; below 2^53 for 68 years, so that JSON carries them whole. A clock that is behind cannot take fences
-- back: then, and wherever the server is plainly another, it is at least the next epoch (an epoch is three days of the
-- clock, and there are eight million).
CREATE OR REPLACE FUNCTION tenure.next_fence(seen_epoch int DEFAULT 0) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  here int := tenure.timeline();
  place text := pg_relation_filepath('tenure.incarnation');
  found_epoch int;
  found_ahead bigint;
  fence bigint;
  last record;
  identifier bigint;
  begins bigint;
BEGIN
  -- A crash may take back what was committed without waiting for the disk: the claim, and the sequence with it.
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'local', true);
  END IF;
  SELECT epoch, ahead INTO found_epoch, found_ahead FROM tenure.incarnation
  WHERE started_at = pg_postmaster_start_time()
    AND timeline = here
    AND table_oid = 'tenure.incarnation'::regclass
    AND stored_in = place;
  IF NOT FOUND THEN
    -- Those who come at once wait here for the first, then change nothing.
    SELECT i.epoch, i.ahead, i.started_at, i.system_identifier, i.timeline, i.table_oid, i.stored_in INTO STRICT last
    FROM tenure.incarnation AS i FOR UPDATE;
    SELECT control.system_identifier INTO STRICT identifier FROM pg_control_system() AS control;
    found_epoch := last.epoch;
    found_ahead := last.ahead;
    IF (last.started_at, last.timeline, last.table_oid, last.stored_in) IS DISTINCT FROM (pg_postmaster_start_time(), here, 'tenure.incarnation'::regclass::oid, place) THEN
      begins := trunc(4194304 * extract(epoch FROM clock_timestamp() - timestamptz '2026-01-01 00:00:00+00'));  -- implied: a claim is one short transaction
      IF begins <= (last.epoch::bigint << 40) + last.ahead + COALESCE(pg_sequence_last_value('tenure.fence_seq'), 0)  -- implied: the next value of the sequence is above the same number
         OR begins >> 40 <= last.epoch AND (last.system_identifier, last.timeline, last.table_oid, last.stored_in)
                                           IS DISTINCT FROM (identifier, here, 'tenure.incarnation'::regclass::oid, place) THEN
        begins := (last.epoch + 1)::bigint << 40;
      END IF;
      IF begins < 0 THEN  -- past the last epoch the shift reaches the sign
        RAISE EXCEPTION 'this schema has used up its fences, after % epochs: let its rows end, and install Tenure in a new schema', last.epoch
          USING ERRCODE = 'sequence_generator_limit_exceeded';
      END IF;
      found_epoch := begins >> 40;
      found_ahead := begins & 1099511627775;
      UPDATE tenure.incarnation
      SET epoch = found_epoch, ahead = found_ahead, system_identifier = identifier, timeline = here,
          table_oid = 'tenure.incarnation'::regclass, stored_in = place, started_at = pg_postmaster_start_time();
    END IF;
  END IF;
  fence := (found_epoch::bigint << 40) + found_ahead + nextval('tenure.fence_seq');
  IF fence >> 40 < seen_epoch THEN
    RAISE EXCEPTION 'this server is at epoch %, epoch % was seen elsewhere: connect to the current primary', fence >> 40, seen_epoch
      USING ERRCODE = 'TN001';
  END IF;
  RETURN fence;
END
$$;

-- Where every table of a database is published (CDC), only tables that say which row a change is about take UPDATE and DELETE.
-- A key for the archive would be one more index for every completion; its rows are deleted rarely, so they are logged whole.
DO $identity$
DECLARE
  part record;
BEGIN
  FOR part IN
    SELECT 'tenure.archive'::regclass AS name
    UNION ALL
    SELECT h.inhrelid::regclass FROM pg_inherits AS h WHERE h.inhparent = 'tenure.archive'::regclass
  LOOP
    EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', part.name);
  END LOOP;
END
$identity$;

-- A few pages that change all the time, and that every look passes: vacuumed without pauses.
ALTER TABLE tenure.workers SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tenure.queues SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tenure.chores SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tenure.tally SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- To replace a function takes back what the roles have made of it; what they made of keep_archive is kept.
DO $kept$
BEGIN
  PERFORM set_config('tenure_inbox.kept', (SELECT f.prosecdef::text FROM pg_proc AS f
                                           WHERE f.oid = 'tenure.keep_archive(interval, interval, int)'::regprocedure), true);
END
$kept$;

-- Keep the archive: a partition for each coming day, days past retention dropped whole, and what belonged to rows long
-- gone forgotten in batches. A day it cannot lock within a second is left to the next round. Whoever may call this has the
-- owner's hand: nothing that is younger than an hour is forgotten, whatever is asked, nor more than 10,000 at once.
CREATE OR REPLACE FUNCTION tenure.keep_archive(
  retention interval DEFAULT '14 days', key_retention interval DEFAULT '30 days', batch int DEFAULT 1000
) RETURNS TABLE (what text, n bigint) LANGUAGE plpgsql
  SET enable_bitmapscan = on  -- what a queue connection switches off, and the search by age needs
AS $$
#variable_conflict use_column
DECLARE
  today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;  -- implied: days are made three ahead
  oldest timestamptz := clock_timestamp() - GREATEST(retention, interval '1 hour');
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
    SELECT a.ctid FROM tenure.archive_rest AS a WHERE a.completed_at < oldest LIMIT most));
  GET DIAGNOSTICS n = ROW_COUNT; what := 'stray_rows_forgotten'; RETURN NEXT;

  DELETE FROM tenure.dead WHERE id = ANY (ARRAY(
    SELECT d.id FROM tenure.dead AS d WHERE d.status = 'cancelled' AND d.finished_at < oldest
    LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS n = ROW_COUNT; what := 'cancelled_forgotten'; RETURN NEXT;

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
    SELECT c.relname FROM pg_inherits AS h JOIN pg_class AS c ON c.oid = h.inhrelid
    WHERE h.inhparent = 'tenure.archive'::regclass AND c.relname ~ '^archive_[0-9]{8}$'
      AND to_date(right(c.relname, 8), 'YYYYMMDD') < (oldest AT TIME ZONE 'UTC')::date
    ORDER BY c.relname
  LOOP
    BEGIN
      EXECUTE format('DROP TABLE tenure.%I', part.relname);
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

-- A transaction that has notified cannot be prepared (two-phase commit), and whether enqueue notifies depends on who sleeps just
-- then. Where transactions can be prepared at all, a note waits here for the end of its transaction: a commit sends it, a
-- PREPARE TRANSACTION leaves it out, and polling finds the rows.
CREATE TABLE tenure.wakes (
  id     bigint NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue  text   NOT NULL,
  bucket int
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE FUNCTION tenure.wake_at_commit() RETURNS trigger LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  DELETE FROM tenure.wakes AS w WHERE w.id = NEW.id;  -- implied: nobody sees the rows of another transaction, and those of one go together
  IF current_query() !~* 'prepare\s+transaction' THEN
    PERFORM pg_notify(tenure.channel(), COALESCE(NEW.bucket::text, '*') || ' ' || NEW.queue);
  END IF;
  RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER wakes_at_commit AFTER INSERT ON tenure.wakes DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION tenure.wake_at_commit();

-- Wake whoever sleeps: "517 default" is for the owner of bucket 517, "* default" for everybody who serves the queue.
-- A note of latency only: what nobody hears is found by polling. SET tenure_inbox.notify = off silences a producer.
CREATE OR REPLACE FUNCTION tenure.wake(queue text, bucket int) RETURNS void LANGUAGE plpgsql VOLATILE
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF current_setting('max_prepared_transactions') = '0' THEN
    PERFORM pg_notify(tenure.channel(), COALESCE(bucket::text, '*') || ' ' || queue);
  ELSE
    INSERT INTO tenure.wakes (queue, bucket) VALUES (queue, bucket);
  END IF;
END
$$;
