-- Days of steps: a partition for the instances that began on each, made ahead and dropped by retention.
-- kind: expand

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
