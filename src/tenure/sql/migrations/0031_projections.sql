-- Projections: tables made of the journal, how far each has read, and how long events are kept for them.
-- kind: expand
--
--   projections   one row each: its shards, its types, its tables, and whether it is paused
--   checkpoints   how far each shard has read: written in the transaction of what it has applied
--   skipped       events that a shard could not apply; a rebuild has its own, of the tables that it fills

-- How far each shard of a projection has read.
CREATE TABLE tenure.projections (
  projection text        NOT NULL PRIMARY KEY,
  shards     int         NOT NULL CHECK (shards BETWEEN 1 AND 1024),
  like_types text[],
  tables     text[]      NOT NULL DEFAULT '{}',
  on_error   text        NOT NULL CHECK (on_error IN ('stop', 'skip')),
  paused     boolean     NOT NULL DEFAULT false,
  rebuild_id uuid,  -- the row that rebuilds it, from when that is asked for until the swap
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  rebuilt_at timestamptz
);

CREATE TABLE tenure.checkpoints (
  projection  text        NOT NULL,
  shard       int         NOT NULL,  -- -1: the tables that are being rebuilt
  position    bigint      NOT NULL DEFAULT 0,
  fence_token bigint      NOT NULL DEFAULT 0,
  updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  state       text        NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'stopped')),
  row_id      uuid,         -- the resident row
  stopped_at  bigint,       -- the event that it cannot apply
  error       text,
  PRIMARY KEY (projection, shard)
) WITH (fillfactor = 20);

CREATE TABLE tenure.skipped (
  projection text        NOT NULL,
  position   bigint      NOT NULL,
  shard      int         NOT NULL,  -- -1: the tables that are being rebuilt
  stream     text        NOT NULL,
  type       text        NOT NULL,
  error      text        NOT NULL,
  skipped_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  again      boolean     NOT NULL DEFAULT false,  -- somebody asked to apply it after all
  PRIMARY KEY (projection, position, shard)
);

-- Keep the journal: partitions for the positions that come, and events past retention forgotten up to n, from the first on, never one that a
-- projection has still to read. A partition that has none left, and gets none any more, is dropped.
CREATE FUNCTION tenure.keep_journal(most int DEFAULT 10000) RETURNS TABLE (what text, n bigint)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  size CONSTANT bigint := 10000000;
  first bigint := tenure.last_position() / size;
  kept record;
  part record;
  upto bigint;
  name text;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtextextended('tenure journal kept', 'tenure.journal'::regclass::oid::bigint)) THEN  -- implied: only spares the second the work
    RETURN;
  END IF;
  PERFORM set_config('lock_timeout', '1s', true);
  SELECT k.retention_seconds, k.forgotten_to INTO kept FROM tenure.journal_kept AS k;
  n := 0;
  IF kept.retention_seconds IS NOT NULL THEN
    SELECT max(old.position) INTO upto FROM (
      SELECT j.position, j.at FROM tenure.journal AS j
      WHERE j.position > kept.forgotten_to  -- implied: what is before it is gone already
        AND j.position <= LEAST((SELECT min(c.position) FROM tenure.checkpoints AS c), tenure.horizon())
      ORDER BY j.position LIMIT LEAST(most, 10000)) AS old  -- implied: only bounds what one call does, whatever is asked for
    WHERE old.at < clock_timestamp() - kept.retention_seconds * interval '1 second';
    IF upto IS NOT NULL THEN
      DELETE FROM tenure.journal AS j
      WHERE j.position > kept.forgotten_to  -- implied: as above
        AND j.position <= upto;
      GET DIAGNOSTICS n = ROW_COUNT;
      UPDATE tenure.journal_kept SET forgotten_to = upto;
    END IF;
  END IF;
  what := 'events_forgotten'; RETURN NEXT;

  n := 0;
  FOR number IN first .. first + 2 LOOP
    name := 'journal_' || lpad(number::text, 6, '0');
    CONTINUE WHEN to_regclass(format('tenure.%I', name)) IS NOT NULL;
    CONTINUE WHEN EXISTS (SELECT FROM tenure.journal_rest AS j
                          WHERE j.position >= number * size
                            AND j.position < (number + 1) * size);
    BEGIN
      EXECUTE format('CREATE TABLE tenure.%I (LIKE tenure.journal INCLUDING ALL)', name);
      EXECUTE format('ALTER TABLE tenure.journal ATTACH PARTITION tenure.%I FOR VALUES FROM (%s) TO (%s)',
                     name, number * size, (number + 1) * size);
      EXECUTE format('CREATE TRIGGER journal_mark_%s BEFORE INSERT ON tenure.%I FOR EACH STATEMENT EXECUTE FUNCTION tenure.leave_mark()', number, name);
      n := n + 1;
    EXCEPTION WHEN lock_not_available
    THEN
      EXIT;
    END;
  END LOOP;
  what := 'partitions_made'; RETURN NEXT;

  n := 0;
  FOR part IN
    SELECT c.relname FROM pg_inherits AS h JOIN pg_class AS c ON c.oid = h.inhrelid
    WHERE h.inhparent = 'tenure.journal'::regclass AND c.relname ~ '^journal_[0-9]{6}$'
      AND (right(c.relname, 6)::bigint + 1) * size <= LEAST(kept.forgotten_to, tenure.last_position())
    ORDER BY c.relname LIMIT 1
  LOOP
    BEGIN
      EXECUTE format('DROP TABLE tenure.%I', part.relname);
      n := n + 1;
    EXCEPTION WHEN lock_not_available
    THEN
      EXIT;
    END;
  END LOOP;
  what := 'partitions_dropped'; RETURN NEXT;
END
$$;

-- Erase a stream: its events, its name and what projections have skipped of it. The stream's row is locked first: who appends meanwhile
-- waits, and begins a new stream.
CREATE FUNCTION tenure.erase_stream(of_stream text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n bigint;
BEGIN
  PERFORM FROM tenure.streams AS s WHERE s.stream = of_stream FOR UPDATE;
  DELETE FROM tenure.skipped AS k WHERE k.stream = of_stream;
  DELETE FROM tenure.journal AS j WHERE j.stream = of_stream;
  GET DIAGNOSTICS n = ROW_COUNT;
  DELETE FROM tenure.streams AS s WHERE s.stream = of_stream;
  RETURN n;
END
$$;

-- A projection as the code has it: its row, its checkpoints, and a row in the inbox for each shard. The number of shards stays what it
-- was: another one takes a rebuild. A shard that ended as a dead letter stays one until somebody acts.
CREATE FUNCTION tenure.plan_projection(of_projection text, of_shards int, of_types text[], of_tables text[], if_error text, in_queue text)
  RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known record;
  made int := 0;
BEGIN
  INSERT INTO tenure.projections AS p (projection, shards, like_types, tables, on_error)
  VALUES (of_projection, of_shards, of_types, of_tables, if_error)
  ON CONFLICT (projection) DO UPDATE SET like_types = of_types, tables = of_tables, on_error = if_error
  RETURNING p.shards INTO of_shards;
  INSERT INTO tenure.checkpoints (projection, shard) SELECT of_projection, n FROM generate_series(0, of_shards - 1) AS n
  ON CONFLICT (projection, shard) DO NOTHING;
  FOR known IN
    SELECT c.shard FROM tenure.checkpoints AS c
    WHERE c.projection = of_projection AND c.shard >= 0
      AND NOT EXISTS (SELECT FROM tenure.live AS i WHERE i.id = c.row_id)
      AND NOT EXISTS (SELECT FROM tenure.dead AS d WHERE d.id = c.row_id)
    ORDER BY c.shard
  LOOP
    UPDATE tenure.checkpoints AS c
    SET row_id = tenure.enqueue_one(format('projection:%s', of_projection), jsonb_build_object('shard', known.shard),
                                    format('%s:%s', of_projection, known.shard), in_queue, 0::smallint, NULL, 0, 20, false, false)
    WHERE c.projection = of_projection AND c.shard = known.shard;
    made := made + 1;
  END LOOP;
  RETURN made;
END
$$;

-- Forget a projection: how far it was, what it skipped, and its rows. One that is held ends when its holder looks.
CREATE FUNCTION tenure.forget_projection(of_projection text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM tenure.projections AS p WHERE p.projection = of_projection;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM tenure.live AS i USING tenure.checkpoints AS c
  WHERE c.projection = of_projection AND i.id = c.row_id
    AND i.status = 'pending';
  DELETE FROM tenure.checkpoints AS c WHERE c.projection = of_projection;
  DELETE FROM tenure.skipped AS k WHERE k.projection = of_projection;
  RETURN true;
END
$$;

-- Pass over the event at which each shard of a projection has stopped; it can be applied again later. How many were skipped.
CREATE FUNCTION tenure.skip_stopped(of_projection text) RETURNS int LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n int;
BEGIN
  WITH passed AS (
    UPDATE tenure.checkpoints AS c
    SET position = c.stopped_at, state = 'running', stopped_at = NULL, error = NULL, updated_at = clock_timestamp()
    FROM tenure.checkpoints AS was
    WHERE c.projection = of_projection AND c.state = 'stopped'
      AND was.projection = c.projection AND was.shard = c.shard
    RETURNING c.projection, c.shard, c.position, was.error
  ), noted AS (
    INSERT INTO tenure.skipped AS k (projection, position, shard, stream, type, error)
    SELECT p.projection, p.position, p.shard, j.stream, j.type, p.error FROM passed AS p JOIN tenure.journal AS j ON j.position = p.position
    ON CONFLICT (projection, position, shard) DO NOTHING
  )
  SELECT count(*) INTO n FROM passed;
  RETURN n;
END
$$;

SELECT count(*) FROM tenure.keep_journal();
INSERT INTO tenure.chores (name, every_seconds) VALUES ('journal', 60);
