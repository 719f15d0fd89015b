-- The handoff of ordered keys, beside the inbox of each node: what Citus moves here waits until what is left elsewhere is worked off.
--
--   ranges       ranges of keys that are at home here: no other inbox has ordered rows of them
--   waiting      ordered rows that came here while their range was not at home
--   keep_order   a trigger: an ordered row of such a range is not due before the range is adopted
--   adopt        makes ranges at home and their rows due, with fences above those of the other inboxes
--
-- Row by row and not key by key: if a range comes back, rows that never left go on, and rows that came since wait behind them.

CREATE TABLE IF NOT EXISTS tenure.ranges (
  range  bigint NOT NULL PRIMARY KEY,
  placed bigint NOT NULL  -- by which move it came: one that has left and come back is not at home
);
CREATE TABLE IF NOT EXISTS tenure.waiting (
  row_id        uuid        NOT NULL PRIMARY KEY,
  partition_key text        NOT NULL,
  since         timestamptz NOT NULL,
  available_at  timestamptz NOT NULL  -- when the row is due, once its range is at home
);

CREATE OR REPLACE FUNCTION tenure.keep_order() RETURNS trigger LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  found record;
BEGIN
  PERFORM tenure_door.hold_range(NEW.partition_key);
  SELECT p.range, p.inbox, p.placed, p.inbox = tenure_door.here() AS here INTO found FROM tenure_door.place(NEW.partition_key) AS p;
  IF found.here AND EXISTS (SELECT FROM tenure.ranges AS r WHERE r.range = found.range AND r.placed = found.placed) THEN
    RETURN NEW;
  END IF;
  IF found.here THEN
    INSERT INTO tenure.waiting AS w (row_id, partition_key, since, available_at)
    VALUES (NEW.id, NEW.partition_key, clock_timestamp(), NEW.available_at)
    ON CONFLICT (row_id) DO UPDATE SET since = EXCLUDED.since, available_at = EXCLUDED.available_at;
    NEW.available_at := clock_timestamp() + interval '3650 days';  -- implied: as long as nobody waits
    NEW.last_error := 'the range of its key has moved here: other inboxes are asked whether they have rows of it';
  ELSIF NEW.lease_generation > 0 THEN  -- it had ended; a new row that is sent here past the door is this inbox's own affair
    RAISE EXCEPTION 'ordered key % belongs to inbox % now, and its rows do not follow: enqueue this one anew, or leave it', NEW.partition_key, found.inbox
      USING ERRCODE = 'TN002';
  END IF;
  RETURN NEW;
END
$$;

-- A row that waits is made due by nobody but adopt: what is asked for meanwhile is kept for that day.
CREATE OR REPLACE FUNCTION tenure.keep_waiting() RETURNS trigger LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  UPDATE tenure.waiting AS w SET available_at = NEW.available_at WHERE w.row_id = NEW.id;
  IF FOUND THEN
    NEW.available_at := OLD.available_at;
  END IF;
  RETURN NEW;
END
$$;

-- Once: a trigger that is made anew waits for whoever writes rows, and lets nobody write meanwhile.
DO $once$
BEGIN
  IF EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = 'tenure.live'::regclass AND t.tgname = 'live_order') THEN
    RETURN;
  END IF;
  CREATE TRIGGER live_order BEFORE INSERT ON tenure.live
    FOR EACH ROW WHEN (NEW.ordered AND NEW.partition_key IS NOT NULL) EXECUTE FUNCTION tenure.keep_order();
  CREATE TRIGGER live_waiting BEFORE UPDATE OF available_at ON tenure.live
    FOR EACH ROW WHEN (NEW.ordered AND NEW.status = 'pending' AND NEW.available_at < OLD.available_at) EXECUTE FUNCTION tenure.keep_waiting();
END
$once$;

-- Make due what has waited since before `upto`, range by range; those that are free of rows elsewhere, and are here still by the same
-- move, are at home from now on. `theirs` is the highest fence of the other inboxes.
CREATE OR REPLACE FUNCTION tenure.adopt(
  ranges bigint[], placed bigint[], free boolean[], upto timestamptz[], theirs bigint, OUT adopted int, OUT freed int
) LANGUAGE plpgsql AS $$
DECLARE
  due record;
BEGIN
  UPDATE tenure.incarnation AS i SET epoch = (theirs >> 40) + 1, ahead = 0
  WHERE (i.epoch::bigint << 40) + i.ahead + COALESCE(pg_sequence_last_value('tenure.fence_seq'), 0) <= theirs;
  INSERT INTO tenure.ranges AS r (range, placed)
  SELECT h.range, h.placed FROM unnest(ranges, placed, free) AS a (range, placed, free)
  JOIN tenure_door.ranges_here() AS h ON h.range = a.range AND h.placed = a.placed
  WHERE a.free
  ON CONFLICT (range) DO UPDATE SET placed = EXCLUDED.placed;
  GET DIAGNOSTICS adopted = ROW_COUNT;

  WITH gone AS (
    DELETE FROM tenure.waiting AS w USING unnest(ranges, upto) AS a (range, upto)
    WHERE tenure_door.range_of(w.partition_key) = a.range
      AND w.since < a.upto
    RETURNING w.row_id, w.available_at
  )
  SELECT array_agg(gone.row_id) AS ids, array_agg(gone.available_at) AS times INTO due FROM gone;
  PERFORM FROM tenure.live AS i
  WHERE i.id = ANY (due.ids)  -- implied: else all rows are locked, in the same order
  ORDER BY i.id FOR UPDATE;  -- implied: else the update locks them in another order, a deadlock that no test can time
  WITH back AS (
    UPDATE tenure.live AS i SET available_at = d.at, last_error = NULL
    FROM unnest(due.ids, due.times) AS d (id, at)
    WHERE i.id = d.id
    RETURNING i.queue, tenure.bucket(i.partition_key) AS bucket
  ), told AS (
    SELECT count(*)::int AS n, tenure.rouse(array_agg(back.queue), array_agg(back.bucket)) AS woken FROM back
  )
  SELECT told.n INTO freed FROM told;
END
$$;

REVOKE EXECUTE ON FUNCTION tenure.keep_order, tenure.keep_waiting, tenure.adopt FROM PUBLIC;
