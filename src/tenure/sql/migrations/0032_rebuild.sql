-- Rebuilding a projection: the same tables beside the old ones, filled from the first event on, then swapped.
-- kind: expand
--
-- These functions run with the rights of whoever calls them: the tables are the user's.

-- Make the tables of a projection anew and empty, in a schema of their own, unless they are there from before: how far they are filled.
CREATE FUNCTION tenure.open_shadow(of_projection text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  place text := of_projection || '_next';
  mine text := format('Tenure rebuilds %s of %s here', of_projection, 'tenure.live'::regclass);
  there oid := (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = place);
  known record;
  name text;
BEGIN
  SELECT p.tables INTO known FROM tenure.projections AS p WHERE p.projection = of_projection;
  IF NOT FOUND THEN
    RETURN NULL;  -- it was forgotten meanwhile
  END IF;
  IF there IS NOT NULL AND obj_description(there, 'pg_namespace') IS DISTINCT FROM mine THEN
    RAISE EXCEPTION 'schema % is there and is not ours: rename it, projection % is rebuilt in a schema of that name', place, of_projection
      USING ERRCODE = 'duplicate_schema';
  END IF;
  IF there IS NOT NULL AND EXISTS (SELECT FROM tenure.checkpoints AS c WHERE c.projection = of_projection AND c.shard = -1) THEN
    RETURN (SELECT c.position FROM tenure.checkpoints AS c WHERE c.projection = of_projection AND c.shard = -1);
  END IF;
  EXECUTE format('DROP SCHEMA IF EXISTS %I CASCADE', place);
  EXECUTE format('CREATE SCHEMA %I', place);
  EXECUTE format('COMMENT ON SCHEMA %I IS %L', place, mine);
  FOREACH name IN ARRAY known.tables LOOP
    IF to_regclass(name) IS NULL THEN
      RAISE EXCEPTION 'table % of projection % is not there: create it, or mend tables=[...]', name, of_projection USING ERRCODE = 'undefined_table';
    END IF;
    EXECUTE format('CREATE TABLE %I.%I (LIKE %s INCLUDING ALL)', place, (SELECT c.relname FROM pg_class AS c WHERE c.oid = name::regclass), name::regclass);
  END LOOP;
  DELETE FROM tenure.checkpoints AS c WHERE c.projection = of_projection AND c.shard = -1;
  DELETE FROM tenure.skipped AS k WHERE k.projection = of_projection AND k.shard = -1;
  INSERT INTO tenure.checkpoints (projection, shard) VALUES (of_projection, -1);
  RETURN 0;
END
$$;

-- True if nothing but its own indexes and constraints hangs on a table, and the new one has the same: then it can be dropped and the
-- new one put in its place. Views, foreign keys, triggers, grants, policies and owned sequences would be lost.
CREATE FUNCTION tenure.stands_alone(old oid, new oid) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT c.relacl IS NULL AND NOT c.relrowsecurity AND c.relowner = (SELECT n.relowner FROM pg_class AS n WHERE n.oid = new)
    AND NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = old AND a.attacl IS NOT NULL)
    AND NOT EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = old)
    AND NOT EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = old)
    AND NOT EXISTS (SELECT FROM pg_publication_rel AS p WHERE p.prrelid = old)
    AND NOT EXISTS (SELECT FROM pg_depend AS d
                    WHERE d.refclassid = 'pg_class'::regclass  -- implied: for the number of another catalog it is copied, which is always right
                      AND d.refobjid = old AND d.deptype = 'n')
    AND NOT EXISTS (SELECT FROM pg_depend AS d
                    WHERE d.refclassid = 'pg_type'::regclass  -- implied: as above
                      AND d.refobjid = c.reltype AND d.deptype = 'n')
    AND NOT EXISTS (SELECT FROM pg_depend AS d JOIN pg_class AS s ON s.oid = d.objid
                    WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass  -- implied: as above
                      AND d.refobjid = old AND s.relkind = 'S')
    AND NOT EXISTS (SELECT FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid
                    WHERE x.indrelid IN (old, new) GROUP BY i.relname HAVING count(*) = 1)
  FROM pg_class AS c WHERE c.oid = old
$$;

-- After rows with numbers of their own were put into a table: the sequences of its columns go on past the greatest, and never before
-- where they stood. RESTART and not setval(): it is undone with the transaction, and other sessions forget numbers they have in reserve.
CREATE FUNCTION tenure.raise_sequences(of_table regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  owned record;
  next bigint;
  furthest bigint;
BEGIN
  FOR owned IN
    SELECT d.objid::regclass AS name, a.attname, s.seqincrement AS step, s.seqmin AS least, s.seqmax AS most
    FROM pg_depend AS d
    JOIN pg_sequence AS s ON s.seqrelid = d.objid
    JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
    WHERE d.refobjid = of_table
      AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass  -- implied: numbers of other catalogs are no sequence of a column
      AND d.deptype IN ('a', 'i')  -- implied: a column owns its sequence, or is an identity
      AND a.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'numeric'::regtype)
  LOOP
    EXECUTE format('SELECT last_value + CASE WHEN is_called THEN $1 ELSE 0 END FROM %s', owned.name) INTO next USING owned.step;
    EXECUTE format('SELECT CASE WHEN $1 > 0 THEN max(%1$I) ELSE min(%1$I) END FROM %2$s WHERE %1$I BETWEEN $2 AND $3', owned.attname, of_table)
      INTO furthest USING owned.step, owned.least - LEAST(owned.step, 0), owned.most - GREATEST(owned.step, 0);  -- implied: a number below the least is none past where it stands
    IF (owned.step > 0 AND furthest >= next) OR (owned.step < 0 AND furthest <= next) THEN
      EXECUTE format('ALTER SEQUENCE %s RESTART WITH %s', owned.name, furthest + owned.step);
    END IF;
  END LOOP;
END
$$;

-- Put the rebuilt tables in the place of the old ones, and all checkpoints to where they were filled up to. The caller has locked the
-- checkpoints: no shard writes meanwhile.
CREATE FUNCTION tenure.swap_shadow(of_projection text, of_shards int, upto bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  place text := of_projection || '_next';
  known record;
  name text;
  old regclass;
  new regclass;
  home text;
  columns text;
  how text := 'moved';
BEGIN
  SELECT p.tables, p.like_types, p.on_error INTO known FROM tenure.projections AS p WHERE p.projection = of_projection FOR UPDATE;
  IF NOT FOUND THEN
    RETURN NULL;  -- as above
  END IF;
  -- Without the shadow, wherever on the path it stands and however often: a name means the table itself.
  PERFORM set_config('search_path', coalesce(string_agg(quote_ident(s), ', ' ORDER BY n), ''), true)
  FROM unnest(current_schemas(false)) WITH ORDINALITY AS path (s, n) WHERE s <> place;
  FOREACH name IN ARRAY known.tables LOOP
    old := name::regclass;
    SELECT n.nspname INTO home FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = old;
    new := format('%I.%I', place, (SELECT c.relname FROM pg_class AS c WHERE c.oid = old))::regclass;
    IF tenure.stands_alone(old, new) THEN
      EXECUTE format('DROP TABLE %I.%I', home, (SELECT c.relname FROM pg_class AS c WHERE c.oid = old));
      EXECUTE format('ALTER TABLE %I.%I SET SCHEMA %I', place, (SELECT c.relname FROM pg_class AS c WHERE c.oid = new), home);
    ELSE
      how := 'copied';
      SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns FROM pg_attribute AS a
      WHERE a.attrelid = new AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '';
      EXECUTE format('DELETE FROM %I.%I', home, (SELECT c.relname FROM pg_class AS c WHERE c.oid = old));
      EXECUTE format('INSERT INTO %1$I.%2$I (%4$s) OVERRIDING SYSTEM VALUE SELECT %4$s FROM %3$I.%2$I',
                     home, (SELECT c.relname FROM pg_class AS c WHERE c.oid = new), place, columns);
      PERFORM tenure.raise_sequences(old);
    END IF;
  END LOOP;
  EXECUTE format('DROP SCHEMA %I CASCADE', place);
  UPDATE tenure.checkpoints AS c SET position = upto, state = 'running', stopped_at = NULL, error = NULL, updated_at = clock_timestamp()
  WHERE c.projection = of_projection;
  DELETE FROM tenure.checkpoints AS c WHERE c.projection = of_projection AND (c.shard = -1 OR c.shard >= of_shards);
  INSERT INTO tenure.checkpoints (projection, shard, position) SELECT of_projection, n, upto FROM generate_series(0, of_shards - 1) AS n
  ON CONFLICT (projection, shard) DO NOTHING;
  DELETE FROM tenure.skipped AS k WHERE k.projection = of_projection AND k.shard >= 0 AND k.position <= upto;
  UPDATE tenure.skipped AS k SET shard = tenure.bucket(k.stream) % of_shards WHERE k.projection = of_projection;
  UPDATE tenure.projections AS p SET shards = of_shards, rebuild_id = NULL, rebuilt_at = clock_timestamp() WHERE p.projection = of_projection;
  RETURN how;
END
$$;

-- Ask for a rebuild: a row that does it, unless there is one, where workers have declared that they take it, else where its shards are. Answers up to where events were forgotten, which no rebuild brings back;
-- if there are such, nothing is asked for unless `partial`.
CREATE FUNCTION tenure.ask_rebuild(of_projection text, partial boolean, OUT known boolean, OUT forgotten_to bigint, OUT row_id uuid)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  in_queue text := COALESCE((SELECT k.queue FROM tenure.declared(format('rebuild:%s', of_projection)) AS k LIMIT 1),
                            (SELECT i.queue FROM tenure.checkpoints AS c JOIN tenure.live AS i ON i.id = c.row_id
                             WHERE c.projection = of_projection LIMIT 1),
                            'projections');
BEGIN
  SELECT k.forgotten_to INTO forgotten_to FROM tenure.journal_kept AS k;
  SELECT p.rebuild_id INTO row_id FROM tenure.projections AS p WHERE p.projection = of_projection FOR UPDATE;
  known := FOUND;
  IF NOT known OR forgotten_to > 0 AND NOT partial
     OR EXISTS (SELECT FROM tenure.live AS i WHERE i.id = row_id) THEN
    RETURN;
  END IF;
  row_id := tenure.enqueue_one(format('rebuild:%s', of_projection), '{}', of_projection || ':rebuild', in_queue, 0::smallint, NULL, 0, 20, false, false);
  UPDATE tenure.projections AS p SET rebuild_id = row_id WHERE p.projection = of_projection;
END
$$;
