-- What rows leave for those who wait for them: results by the day in the id, and how far a job has come.
-- kind: expand

-- Only of handlers that ask for it. By the day in the id: a row is found again by its id alone.
CREATE TABLE tenure.results (
  row_id   uuid        NOT NULL PRIMARY KEY,
  ended_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  queue    text        NOT NULL,
  value    jsonb       NOT NULL
) PARTITION BY RANGE (row_id);
CREATE TABLE tenure.results_rest PARTITION OF tenure.results DEFAULT;  -- of days for which nobody made a partition, or that are over

-- Who waits for the end of a row: only then a note is sent.
CREATE TABLE tenure.watched (
  row_id uuid        NOT NULL PRIMARY KEY,
  until  timestamptz NOT NULL
);

-- Changed in place: no index but the key's.
CREATE TABLE tenure.progress (
  row_id uuid        NOT NULL PRIMARY KEY,
  at     timestamptz NOT NULL,
  share  float8      CHECK (share BETWEEN 0 AND 1),
  note   text
) WITH (fillfactor = 50);

-- Keep the values of rows that are completed in this statement, and tell those who wait for them.
CREATE FUNCTION tenure.keep_values(ended uuid[], of_queues text[], ids uuid[], kept jsonb[]) RETURNS int LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  n int;
BEGIN
  INSERT INTO tenure.results (row_id, queue, value)
  SELECT e.id, e.queue, k.value FROM unnest(ended, of_queues) AS e (id, queue)
  JOIN unnest(ids, kept) AS k (id, value) ON k.id = e.id
  WHERE k.value IS NOT NULL;
  GET DIAGNOSTICS n = ROW_COUNT;
  PERFORM pg_notify(tenure.channel() || '_ended', a.row_id::text) FROM tenure.watched AS a WHERE a.row_id = ANY (ended);
  RETURN n;
END
$$;

-- Keep results as the archive is kept: a partition for each coming day, days past every retention dropped whole, what a queue keeps for a
-- shorter time deleted. A result that came long after its row was sent is kept for as long as the others: it moves to results_rest. Groups that ended before, and
-- what nobody waits for, are forgotten too. Whoever may call this has the owner's hand: nothing younger than an hour goes, nor more than 10,000 at once.
CREATE FUNCTION tenure.keep_results(retention interval DEFAULT '14 days', batch int DEFAULT 1000) RETURNS TABLE (what text, n bigint)
  LANGUAGE plpgsql SET enable_bitmapscan = on
AS $$
#variable_conflict use_column
DECLARE
  today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;  -- implied: days are made three ahead
  usual timestamptz := clock_timestamp() - GREATEST(retention, interval '1 hour');
  oldest timestamptz := LEAST(usual, (SELECT min(s.oldest) FROM tenure.retentions() AS s));
  most int := LEAST(batch, 10000);
  day date;
  part record;
  name text;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('tenure results ' || 'tenure.results'::regclass::oid, 0)) THEN  -- implied: only spares the second the work
    RETURN;
  END IF;
  PERFORM set_config('lock_timeout', '1s', true);
  WITH gone AS (
    DELETE FROM tenure.groups WHERE id = ANY (ARRAY(
      SELECT g.id FROM tenure.groups AS g WHERE g.ended_at < usual LIMIT most FOR UPDATE SKIP LOCKED))
    RETURNING id
  ), slots AS (
    DELETE FROM tenure.group_slots AS s USING gone WHERE s.group_id = gone.id
  )
  SELECT count(*) INTO n FROM gone;
  what := 'batches_forgotten'; RETURN NEXT;

  DELETE FROM tenure.progress WHERE row_id = ANY (ARRAY(
    SELECT p.row_id FROM tenure.progress AS p
    WHERE p.at < clock_timestamp() - interval '1 hour'
      AND NOT EXISTS (SELECT FROM tenure.live AS i WHERE i.id = p.row_id)
    LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS n = ROW_COUNT; what := 'progress_forgotten'; RETURN NEXT;
  DELETE FROM tenure.watched AS a WHERE a.until < clock_timestamp();

  DELETE FROM tenure.results AS r USING (
    SELECT r.row_id FROM tenure.results AS r LEFT JOIN tenure.retentions() AS s ON s.queue = r.queue
    WHERE r.ended_at < COALESCE(s.oldest, usual) LIMIT most) AS old
  WHERE r.row_id = old.row_id;
  GET DIAGNOSTICS n = ROW_COUNT; what := 'results_forgotten'; RETURN NEXT;

  n := 0;
  BEGIN
    FOR day IN SELECT today + ahead FROM generate_series(0, 3) AS ahead LOOP
      name := 'results_' || to_char(day, 'YYYYMMDD');
      CONTINUE WHEN to_regclass(format('tenure.%I', name)) IS NOT NULL;
      CONTINUE WHEN EXISTS (SELECT FROM tenure.results_rest AS r
                            WHERE r.row_id >= tenure.id_at(day::timestamp AT TIME ZONE 'UTC')
                              AND r.row_id < tenure.id_at((day + 1)::timestamp AT TIME ZONE 'UTC'));
      EXECUTE format('CREATE TABLE tenure.%I PARTITION OF tenure.results FOR VALUES FROM (%L) TO (%L)', name,
                     tenure.id_at(day::timestamp AT TIME ZONE 'UTC'), tenure.id_at((day + 1)::timestamp AT TIME ZONE 'UTC'));
      n := n + 1;
    END LOOP;
    FOR part IN
      SELECT c.relname FROM pg_inherits AS h JOIN pg_class AS c ON c.oid = h.inhrelid
      WHERE h.inhparent = 'tenure.results'::regclass AND c.relname ~ '^results_[0-9]{8}$'
        AND to_date(right(c.relname, 8), 'YYYYMMDD') < (oldest AT TIME ZONE 'UTC')::date
    LOOP
      EXECUTE format('ALTER TABLE tenure.results DETACH PARTITION tenure.%I', part.relname);
      EXECUTE format($late$
        INSERT INTO tenure.results (row_id, ended_at, queue, value) SELECT r.row_id, r.ended_at, r.queue, r.value FROM tenure.%I AS r
        WHERE r.ended_at > $1
      $late$, part.relname) USING oldest;
      EXECUTE format('DROP TABLE tenure.%I', part.relname);
    END LOOP;
  EXCEPTION WHEN lock_not_available
  THEN
    n := 0;  -- for the next round
  END;
  what := 'result_days_made'; RETURN NEXT;
END
$$;

SELECT count(*) FROM tenure.keep_results();

DO $rights$
DECLARE
  grantee text;
BEGIN
  IF (SELECT p.prosecdef FROM pg_proc AS p WHERE p.oid = 'tenure.keep_archive(interval, interval, int)'::regprocedure) THEN
    ALTER FUNCTION tenure.keep_results SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
  END IF;
  FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_proc AS p, aclexplode(p.proacl) AS a
                 WHERE p.oid = 'tenure.keep_archive(interval, interval, int)'::regprocedure AND a.grantee <> 0 LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenure.keep_results, tenure.keep_values TO %s', grantee);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON tenure.progress TO %s', grantee);
  END LOOP;
END
$rights$;
