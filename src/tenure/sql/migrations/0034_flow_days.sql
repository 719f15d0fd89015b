-- Days of steps: a partition for the instances that began on each, made ahead and dropped by retention. And how a flow comes back: redriven, or to be undone.
-- kind: expand

-- Whether a flow went on after a step on this path failed: something is recorded that was not asked for by then, on its path or on one that
-- its path branched off, or in a branch that began there later; or another branch has won a race that this path is a part of.
-- Recorded with the failure is the next number of each of these paths, that of the function itself first.
CREATE FUNCTION tenure.went_on(of_row uuid, of_run int, of_path text, asked jsonb) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
    SELECT FROM jsonb_array_elements_text(asked) WITH ORDINALITY AS a (next, level)
    CROSS JOIN LATERAL (SELECT array_to_string((string_to_array(of_path, '/'))[1:a.level::int - 1], '/') AS path) AS up
    CROSS JOIN LATERAL (SELECT COALESCE(NULLIF(up.path, '') || '/', '') AS below, split_part(of_path, '/', a.level::int) AS branch) AS here
    WHERE EXISTS (
      SELECT FROM tenure.steps AS l
      WHERE l.row_id = of_row
        AND l.run = of_run
        AND l.path = up.path
        AND l.n >= a.next::int)
    OR EXISTS (
      SELECT FROM tenure.steps AS l
      WHERE l.row_id = of_row
        AND l.run = of_run
        AND l.path > up.path  -- implied: it is longer; this walks the primary key
        AND starts_with(l.path, here.below)
        AND substring(substr(l.path, length(here.below) + 1) FROM '^\d+')::int >= a.next::int)
    OR EXISTS (
      SELECT FROM tenure.steps AS l
      WHERE l.row_id = of_row
        AND l.run = of_run
        AND l.path = up.path
        AND l.n = split_part(NULLIF(here.branch, ''), '.', 1)::int
        AND l.result::text <> split_part(here.branch, '.', 2)))
$$;

-- What a redrive makes of a flow: its headers. What failed is opened again with fresh tries, and finished records stay; one that was
-- undoing goes on with that, and its time to clean up begins again. One that was undone completely begins its next run, without records:
-- its steps have other keys then, and nobody outside takes them for those that were undone.
-- A failure that the function went on after stays.
CREATE FUNCTION tenure.reopen(of_row uuid, headers jsonb) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  this_run int := COALESCE((headers ->> 'tenure-run')::int, 1);
  undoing text := (SELECT s.state FROM tenure.steps AS s WHERE s.row_id = of_row AND s.run = this_run AND s.path = 'undone');
BEGIN
  IF undoing = 'done' THEN
    RETURN headers - 'tenure-cancel' || jsonb_build_object('tenure-run', (this_run + 1)::text);
  END IF;
  UPDATE tenure.steps AS s SET state = 'retrying', tries = 0, result = NULL, until = clock_timestamp()  -- implied: any time that has passed
  WHERE s.row_id = of_row
    AND s.run = this_run
    AND s.state = 'failed'
    AND (s.path = 'undo' OR s.path LIKE 'undo/%') = (undoing IS NOT NULL)
    AND (undoing IS NOT NULL OR NOT tenure.went_on(of_row, this_run, s.path, s.result -> 'asked'));
  IF undoing IS NULL THEN
    headers := headers - 'tenure-cancel';
  END IF;
  RETURN headers || jsonb_build_object('tenure-redriven', date_part('epoch', clock_timestamp())::text);  -- implied: the row is claimed after both
END
$$;

-- Ask an instance that lives to stop: it undoes what it has done, and ends as cancelled. Asked twice is asked once.
CREATE FUNCTION tenure.stop_flow(of_row uuid, named text, reason text, OUT row_id uuid, OUT outcome text) LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  place record;
BEGIN
  row_id := COALESCE(of_row, (SELECT k.row_id FROM tenure.idempotency AS k WHERE k.key = named));
  UPDATE tenure.live AS i
  SET headers = i.headers || jsonb_build_object('tenure-cancel', COALESCE(i.headers ->> 'tenure-cancel', NULLIF(reason, ''), 'on request')),
      available_at = CASE WHEN i.status = 'pending' THEN LEAST(i.available_at, clock_timestamp()) ELSE i.available_at END
  WHERE i.id = stop_flow.row_id AND i.headers ? 'tenure-flow'
  RETURNING i.queue, tenure.bucket(COALESCE(i.partition_key, i.id::text)) AS bucket INTO place;
  IF FOUND THEN
    PERFORM tenure.rouse(ARRAY[place.queue], ARRAY[place.bucket]);
    outcome := 'asked';
  ELSE
    outcome := CASE WHEN EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = stop_flow.row_id AND i.headers ? 'tenure-flow') THEN 'ended' ELSE 'unknown' END;
  END IF;
END
$$;

-- The same; and a dead letter that has not undone what it did comes back to do so, if the caller may take it from there, as an operator
-- may: it does so with the caller's own rights. One that was redriven while its row was waited for lives, and is asked once more.
CREATE FUNCTION tenure.cancel_flow(of_row uuid, named text, reason text, OUT row_id uuid, OUT outcome text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  place record;
BEGIN
  SELECT s.row_id, s.outcome INTO row_id, outcome FROM tenure.stop_flow(of_row, named, reason) AS s;
  IF outcome = 'ended' AND has_table_privilege('tenure.dead', 'DELETE') THEN
    WITH raised AS (
      DELETE FROM tenure.dead AS d
      WHERE d.id = cancel_flow.row_id
        AND d.status = 'dead_letter'
        AND d.headers ? 'tenure-flow'
        AND EXISTS (SELECT FROM tenure.steps AS s WHERE s.row_id = d.id)
        AND NOT EXISTS (SELECT FROM tenure.steps AS s WHERE s.row_id = d.id AND s.run = COALESCE((d.headers ->> 'tenure-run')::int, 1) AND s.path = 'undone' AND s.state = 'done')
      RETURNING d.id, d.seq, d.created_at, d.lease_generation, d.fence_token, d.max_attempts, d.priority, d.ordered, d.hold, d.kind,
                d.queue, d.partition_key, d.idempotency_key, d.payload, d.last_error, d.headers, d.counted
    )
    INSERT INTO tenure.live AS i (id, seq, created_at, lease_generation, fence_token, max_attempts, priority, ordered, hold, kind,
                                  queue, partition_key, idempotency_key, payload, last_error, headers, counted)
    OVERRIDING SYSTEM VALUE
    SELECT id, seq, created_at, lease_generation, fence_token, max_attempts, priority, ordered, hold, kind, queue, partition_key, idempotency_key,
           payload, last_error, tenure.reopen(id, headers) || jsonb_build_object('tenure-cancel', COALESCE(NULLIF(reason, ''), 'on request')), tenure.count_again(counted)
    FROM raised
    RETURNING i.queue, tenure.bucket(COALESCE(i.partition_key, i.id::text)) AS bucket INTO place;
    IF FOUND THEN
      PERFORM tenure.rouse(ARRAY[place.queue], ARRAY[place.bucket]);
      outcome := 'asked';
    ELSE
      outcome := (SELECT s.outcome FROM tenure.stop_flow(cancel_flow.row_id, NULL, reason) AS s);
    END IF;
  END IF;
END
$$;

-- Partitions for the coming days; those past retention go, unless an instance of that day still lives. What belonged to instances that
-- are gone is forgotten.
CREATE FUNCTION tenure.keep_flows(retention interval DEFAULT '14 days', batch int DEFAULT 1000) RETURNS TABLE (what text, n bigint) LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;  -- implied: days are made three ahead
  oldest timestamptz := clock_timestamp() - GREATEST(retention, interval '1 hour');
  most int := LEAST(batch, 10000);
  day date;
  name text;
  part record;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('tenure steps ' || 'tenure.steps'::regclass::oid, 0)) THEN  -- implied: only spares the second the work
    RETURN;
  END IF;
  PERFORM set_config('lock_timeout', '1s', true);
  n := 0;
  FOR day IN SELECT today + ahead FROM generate_series(0, 3) AS ahead LOOP
    name := 'steps_' || to_char(day, 'YYYYMMDD');
    CONTINUE WHEN to_regclass(format('tenure.%I', name)) IS NOT NULL;
    CONTINUE WHEN EXISTS (SELECT FROM tenure.steps_rest AS s WHERE s.row_id >= tenure.id_at(day::timestamp AT TIME ZONE 'UTC')
                            AND s.row_id < tenure.id_at((day + 1)::timestamp AT TIME ZONE 'UTC'));
    BEGIN
      EXECUTE format('CREATE TABLE tenure.%I PARTITION OF tenure.steps FOR VALUES FROM (%L) TO (%L) WITH (fillfactor = 85)', name,
                     tenure.id_at(day::timestamp AT TIME ZONE 'UTC'), tenure.id_at((day + 1)::timestamp AT TIME ZONE 'UTC'));
      n := n + 1;
    EXCEPTION WHEN lock_not_available THEN
      EXIT;
    END;
  END LOOP;
  what := 'step_days_made'; RETURN NEXT;

  n := 0;
  FOR part IN
    SELECT c.relname, to_date(right(c.relname, 8), 'YYYYMMDD') AS day FROM pg_inherits AS h JOIN pg_class AS c ON c.oid = h.inhrelid
    WHERE h.inhparent = 'tenure.steps'::regclass AND c.relname ~ '^steps_\d{8}$' AND to_date(right(c.relname, 8), 'YYYYMMDD') < (oldest AT TIME ZONE 'UTC')::date
    ORDER BY 2
  LOOP
    CONTINUE WHEN EXISTS (SELECT FROM tenure.live AS i
                          WHERE i.id >= tenure.id_at(part.day::timestamp AT TIME ZONE 'UTC') AND i.id < tenure.id_at((part.day + 1)::timestamp AT TIME ZONE 'UTC'));
    CONTINUE WHEN EXISTS (SELECT FROM tenure.dead AS d
                          WHERE d.id >= tenure.id_at(part.day::timestamp AT TIME ZONE 'UTC') AND d.id < tenure.id_at((part.day + 1)::timestamp AT TIME ZONE 'UTC'));
    BEGIN
      EXECUTE format('DROP TABLE tenure.%I', part.relname);
      n := n + 1;
    EXCEPTION WHEN lock_not_available THEN
      EXIT;
    END;
  END LOOP;
  what := 'step_days_dropped'; RETURN NEXT;

  DELETE FROM tenure.signals AS g WHERE (g.row_id, g.n) IN (
    SELECT g.row_id, g.n FROM tenure.signals AS g WHERE g.sent_at < oldest AND NOT EXISTS (SELECT FROM tenure.live AS i WHERE i.id = g.row_id)
      AND NOT EXISTS (SELECT FROM tenure.dead AS d WHERE d.id = g.row_id) LIMIT most);
  GET DIAGNOSTICS n = ROW_COUNT; what := 'signals_forgotten'; RETURN NEXT;
  DELETE FROM tenure.signals_once AS o WHERE (o.row_id, o.once) IN (
    SELECT o.row_id, o.once FROM tenure.signals_once AS o WHERE o.row_id < tenure.id_at(oldest) AND NOT EXISTS (SELECT FROM tenure.live AS i WHERE i.id = o.row_id)
      AND NOT EXISTS (SELECT FROM tenure.dead AS d WHERE d.id = o.row_id) LIMIT most);
  DELETE FROM tenure.shown AS v WHERE (v.row_id, v.key) IN (
    SELECT v.row_id, v.key FROM tenure.shown AS v WHERE v.row_id < tenure.id_at(oldest) AND NOT EXISTS (SELECT FROM tenure.live AS i WHERE i.id = v.row_id)
      AND NOT EXISTS (SELECT FROM tenure.dead AS d WHERE d.id = v.row_id) LIMIT most);
  DELETE FROM tenure.said AS t WHERE (t.row_id, t.n) IN (
    SELECT t.row_id, t.n FROM tenure.said AS t WHERE t.row_id < tenure.id_at(oldest) AND NOT EXISTS (SELECT FROM tenure.live AS i WHERE i.id = t.row_id)
      AND NOT EXISTS (SELECT FROM tenure.dead AS d WHERE d.id = t.row_id) LIMIT most);
  DELETE FROM tenure.steps_rest AS s WHERE (s.row_id, s.run, s.path, s.n) IN (
    SELECT s.row_id, s.run, s.path, s.n FROM tenure.steps_rest AS s WHERE s.row_id < tenure.id_at(oldest) AND NOT EXISTS (SELECT FROM tenure.live AS i WHERE i.id = s.row_id)
      AND NOT EXISTS (SELECT FROM tenure.dead AS d WHERE d.id = s.row_id) LIMIT most);
  GET DIAGNOSTICS n = ROW_COUNT; what := 'stray_steps_forgotten'; RETURN NEXT;
END
$$;
SELECT count(*) FROM tenure.keep_flows();
