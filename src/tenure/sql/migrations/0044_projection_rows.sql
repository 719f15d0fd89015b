-- The rows of a projection: each projection has a queue of its own, and a resume brings its rows back.
-- kind: expand

ALTER TABLE tenure.projections ADD COLUMN queue text;
UPDATE tenure.projections SET queue = 'projection:' || projection;
ALTER TABLE tenure.projections ALTER COLUMN queue SET NOT NULL;

-- As in 0031_projections.sql, and rows that are in another queue come to this one, also while they are held: they are given back there.
CREATE OR REPLACE FUNCTION tenure.plan_projection(of_projection text, of_shards int, of_types text[], of_tables text[], if_error text, in_queue text)
  RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known record;
  made int := 0;
BEGIN
  INSERT INTO tenure.projections AS p (projection, shards, like_types, tables, on_error, queue)
  VALUES (of_projection, of_shards, of_types, of_tables, if_error, in_queue)
  ON CONFLICT (projection) DO UPDATE SET like_types = of_types, tables = of_tables, on_error = if_error, queue = in_queue
  RETURNING p.shards INTO of_shards;
  INSERT INTO tenure.checkpoints (projection, shard) SELECT of_projection, n FROM generate_series(0, of_shards - 1) AS n
  ON CONFLICT (projection, shard) DO NOTHING;
  UPDATE tenure.live AS i SET queue = in_queue
  FROM (SELECT c.row_id FROM tenure.checkpoints AS c WHERE c.projection = of_projection
        UNION ALL SELECT p.rebuild_id FROM tenure.projections AS p WHERE p.projection = of_projection) AS ours
  WHERE i.id = ours.row_id
    AND i.queue <> in_queue;  -- implied: only spares the others the write
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

-- As in 0032_rebuild.sql; its row goes to the queue of the others.
CREATE OR REPLACE FUNCTION tenure.ask_rebuild(of_projection text, partial boolean, OUT known boolean, OUT forgotten_to bigint, OUT row_id uuid)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  in_queue text;
BEGIN
  SELECT k.forgotten_to INTO forgotten_to FROM tenure.journal_kept AS k;
  SELECT p.rebuild_id, COALESCE((SELECT k.queue FROM tenure.declared(format('rebuild:%s', of_projection)) AS k LIMIT 1), p.queue) INTO row_id, in_queue
  FROM tenure.projections AS p WHERE p.projection = of_projection FOR UPDATE;
  known := FOUND;
  IF NOT known OR forgotten_to > 0 AND NOT partial
     OR EXISTS (SELECT FROM tenure.live AS i WHERE i.id = row_id) THEN
    RETURN;
  END IF;
  row_id := tenure.enqueue_one(format('rebuild:%s', of_projection), '{}', of_projection || ':rebuild', in_queue, 0::smallint, NULL, 0, 20, false, false);
  UPDATE tenure.projections AS p SET rebuild_id = row_id WHERE p.projection = of_projection;
END
$$;
