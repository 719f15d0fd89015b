-- What stands beside the inbox: servers that come back as others, readers of the log, sessions with their own calendars.
-- kind: expand

-- A running server can copy a whole database, oids and all: the copy has another folder. NULL: the first claim notes it.
ALTER TABLE tenure.incarnation ADD COLUMN stored_in text;

-- Where the fences of a server begin that was started, promoted or restored just now: at its time, 2^22 fences a second from
-- 2026 on, so that the later of two is above the earlier whatever either has forgotten; below 2^53 for 68 years, so that
-- JSON carries them whole. A clock that is behind cannot take fences back: then, and wherever the server is plainly another,
-- it is at least the next epoch (an epoch is three days of the clock, and there are eight million).
CREATE FUNCTION tenure.fences_from(last_epoch int, last_fence bigint, another boolean) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  by_clock bigint := trunc(4194304 * extract(epoch FROM clock_timestamp() - timestamptz '2026-01-01 00:00:00+00'));  -- implied: a claim is one short transaction
BEGIN
  IF by_clock > last_fence
     AND NOT (another AND by_clock >> 40 <= last_epoch) THEN
    RETURN by_clock;
  END IF;
  IF last_epoch >= 8388606 THEN
    RAISE EXCEPTION 'this schema has used up its fences, after % epochs: let its rows end, and install Tenure in a new schema', last_epoch
      USING ERRCODE = 'sequence_generator_limit_exceeded';
  END IF;
  RETURN (last_epoch + 1)::bigint << 40;
END
$$;

-- The next fence token: epoch << 40 | sequence. Monotone across rows by the sequence, and across failover, restore, promotion
-- and crash by where each start begins. While a server runs it stays the same; one that was started since the last
-- claim may be a copy put back, and nothing in it would say so. A caller that has seen a higher epoch is talking to a stale
-- primary: it gets an error and no row.
CREATE OR REPLACE FUNCTION tenure.next_fence(seen_epoch int DEFAULT 0) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  here int := tenure.timeline();
  place text := pg_relation_filepath('tenure.incarnation');
  identifier bigint;
  found_epoch int;
  found_ahead bigint;
  fence bigint;
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
    SELECT control.system_identifier INTO STRICT identifier FROM pg_control_system() AS control;
    -- Those who come at once wait here for the first, then change nothing.
    UPDATE tenure.incarnation AS i
    SET (epoch, ahead) = (
          SELECT begin >> 40, begin & 1099511627775
          FROM tenure.fences_from(i.epoch, (i.epoch::bigint << 40) + i.ahead + COALESCE(pg_sequence_last_value('tenure.fence_seq'), 0),
                                  (i.system_identifier, i.timeline, i.table_oid, i.stored_in)
                                  IS DISTINCT FROM (identifier, here, 'tenure.incarnation'::regclass::oid, place)) AS begin),
        system_identifier = identifier, timeline = here, table_oid = 'tenure.incarnation'::regclass, stored_in = place,
        started_at = pg_postmaster_start_time()
    WHERE (i.started_at, i.timeline, i.table_oid, i.stored_in) IS DISTINCT FROM (pg_postmaster_start_time(), here, 'tenure.incarnation'::regclass::oid, place);
    SELECT epoch, ahead INTO STRICT found_epoch, found_ahead FROM tenure.incarnation;
  END IF;
  fence := (found_epoch::bigint << 40) + found_ahead + nextval('tenure.fence_seq');
  IF fence >> 40 < seen_epoch THEN
    RAISE EXCEPTION 'this server is at epoch %, epoch % was seen elsewhere: connect to the current primary', fence >> 40, seen_epoch
      USING ERRCODE = 'TN001';
  END IF;
  RETURN fence;
END
$$;
