-- What housekeeping needs inside the server: where held rows stand, and the keeping of the archive.
-- kind: expand

-- The lanes (queue, priority) that hold unordered rows, by a loose walk of live_ready: one probe a lane, whatever the backlog.
CREATE FUNCTION tenure.lanes() RETURNS TABLE (queue text, priority smallint) LANGUAGE sql STABLE AS $$
  WITH RECURSIVE lane AS (
    (SELECT i.queue, i.priority FROM tenure.live AS i WHERE NOT i.ordered ORDER BY i.queue, i.priority LIMIT 1)
    UNION ALL
    SELECT further.queue, further.priority FROM lane CROSS JOIN LATERAL (
      SELECT i.queue, i.priority FROM tenure.live AS i
      WHERE NOT i.ordered AND (i.queue, i.priority) > (lane.queue, lane.priority)
      ORDER BY i.queue, i.priority LIMIT 1) AS further
  )
  SELECT lane.queue, lane.priority FROM lane
$$;

-- The lanes with the buckets that have rows in them, by the same walk of live_ready: one probe for each such bucket.
CREATE FUNCTION tenure.spots() RETURNS TABLE (queue text, priority smallint, bucket int) LANGUAGE sql STABLE AS $$
  WITH RECURSIVE spot AS (
    (SELECT i.queue, i.priority, tenure.bucket(COALESCE(i.partition_key, i.id::text)) AS bucket
     FROM tenure.live AS i
     WHERE NOT i.ordered  -- implied: held asks again; this one lets live_ready serve
     ORDER BY i.queue, i.priority, tenure.bucket(COALESCE(i.partition_key, i.id::text)) LIMIT 1)
    UNION ALL
    SELECT further.queue, further.priority, further.bucket FROM spot CROSS JOIN LATERAL (
      SELECT i.queue, i.priority, tenure.bucket(COALESCE(i.partition_key, i.id::text)) AS bucket FROM tenure.live AS i
      WHERE NOT i.ordered  -- implied: held asks again; this one lets live_ready serve
        AND (i.queue, i.priority, tenure.bucket(COALESCE(i.partition_key, i.id::text))) > (spot.queue, spot.priority, spot.bucket)
      ORDER BY i.queue, i.priority, tenure.bucket(COALESCE(i.partition_key, i.id::text)) LIMIT 1) AS further
  )
  SELECT spot.queue, spot.priority, spot.bucket FROM spot
$$;

-- The rows now processing, found without an index on anything a claim changes: claims take the earliest rows of a bucket,
-- so held rows stand at its head. The walk of a bucket ends after `patience` pending rows in a row; a held row
-- further back (behind rows enqueued with an earlier time) is found when those have been claimed, or with patience => NULL.
CREATE FUNCTION tenure.held(patience int DEFAULT 32) RETURNS SETOF uuid LANGUAGE plpgsql STABLE AS $$
DECLARE
  spot record;
  candidate record;
  pending int;
BEGIN
  RETURN QUERY SELECT k.row_id FROM tenure.keys AS k;
  RETURN QUERY SELECT p.row_id FROM tenure.permits AS p;  -- a claim under limits may pass many pending rows by
  IF patience IS NULL THEN  -- implied: the walk below finds the same, bucket by bucket
    RETURN QUERY SELECT i.id FROM tenure.live AS i
    WHERE i.status = 'processing'  -- implied: whoever asks looks again at what is found; spares it the others
      AND NOT i.ordered;  -- implied: those are found by their keys, and twice is no harm
    RETURN;
  END IF;
  FOR spot IN SELECT s.queue, s.priority, s.bucket FROM tenure.spots() AS s LOOP
    pending := 0;
    FOR candidate IN
      SELECT i.id, i.status FROM tenure.live AS i
      WHERE NOT i.ordered  -- implied: like those below, it keeps to one stretch of live_ready; a wider walk finds the same
        AND i.queue = spot.queue  -- implied: as above
        AND i.priority = spot.priority  -- implied: as above
        AND tenure.bucket(COALESCE(i.partition_key, i.id::text)) = spot.bucket  -- implied: as above
        AND i.available_at <= statement_timestamp()  -- implied: what is held was due when it was claimed
      ORDER BY i.available_at
    LOOP
      IF candidate.status = 'processing' THEN
        pending := 0;
        RETURN NEXT candidate.id;
      ELSE
        pending := pending + 1;
        EXIT WHEN pending >= patience;  -- implied: a measure of effort, not a promise
      END IF;
    END LOOP;
  END LOOP;
END
$$;

-- The held rows: all of them while the hot table is small enough to be read through, as a rule it is. Else where they stand as a
-- rule, looked at once: claims take what has been due longest, in the lane or in the bucket, and a bucket whose first row is held is
-- looked into further. That is quicker than held(), and misses more: for people to look at, not to act on.
CREATE FUNCTION tenure.read_through(most int) RETURNS SETOF uuid LANGUAGE sql STABLE
  SET enable_seqscan = on  -- what a queue connection switches off
AS $$
  SELECT i.id FROM tenure.live AS i WHERE i.status = 'processing' LIMIT most
$$;
CREATE FUNCTION tenure.seen_held(most int DEFAULT 10001) RETURNS SETOF uuid LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF pg_relation_size('tenure.live') < 64 * 1024 * 1024 THEN
    RETURN QUERY SELECT tenure.read_through(most);
    RETURN;
  END IF;
  RETURN QUERY
  (SELECT k.row_id FROM tenure.keys AS k LIMIT most)
  UNION
  (SELECT p.row_id FROM tenure.permits AS p LIMIT most)
  UNION
  SELECT head.id FROM tenure.lanes() AS lane CROSS JOIN LATERAL (
    SELECT i.id, i.status FROM tenure.live AS i
    WHERE NOT i.ordered AND i.queue = lane.queue AND i.priority = lane.priority
    ORDER BY i.available_at LIMIT 1000) AS head
  WHERE head.status = 'processing'
  UNION
  SELECT near.id
  FROM (SELECT l.queue, l.priority FROM tenure.lanes() AS l LIMIT 6) AS lane
  CROSS JOIN generate_series(0, 1023) AS turn (bucket)
  CROSS JOIN LATERAL (
    SELECT i.status FROM tenure.live AS i
    WHERE NOT i.ordered AND i.queue = lane.queue AND i.priority = lane.priority
      AND tenure.bucket(COALESCE(i.partition_key, i.id::text)) = turn.bucket
    ORDER BY i.available_at LIMIT 1) AS head
  CROSS JOIN LATERAL (
    SELECT i.id, i.status FROM tenure.live AS i
    WHERE NOT i.ordered AND i.queue = lane.queue AND i.priority = lane.priority
      AND tenure.bucket(COALESCE(i.partition_key, i.id::text)) = turn.bucket
    ORDER BY i.available_at LIMIT 8) AS near
  WHERE head.status = 'processing' AND near.status = 'processing';
END
$$;

-- Keep the archive: a partition for each coming day, days past retention dropped whole, and what belonged to rows long
-- gone forgotten in batches. A day it cannot lock within a second is left to the next round. Whoever may call this has the
-- owner's hand: nothing that is younger than an hour is forgotten, whatever is asked, nor more than 10,000 at once.
CREATE FUNCTION tenure.keep_archive(
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
      EXECUTE format('ALTER TABLE tenure.archive ATTACH PARTITION tenure.%I FOR VALUES FROM (%L) TO (%L)',
                     name, day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
      n := n + 1;
    EXCEPTION WHEN lock_not_available
    THEN
      locked := locked + 1;
      EXIT;
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

SELECT count(*) FROM tenure.keep_archive();
