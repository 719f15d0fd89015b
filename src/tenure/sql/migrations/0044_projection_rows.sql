-- The rows of a projection: each projection has a queue of its own, and a resume brings its rows back.
-- kind: expand

ALTER TABLE tenure.projections ADD COLUMN queue text;
UPDATE tenure.projections SET queue = format('projection:%s', projection);
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

-- As in 0032_rebuild.sql; its row goes to the queue of the others, and if one before it stopped at an event, that is tried again.
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
  UPDATE tenure.checkpoints AS c SET state = 'running', stopped_at = NULL
  WHERE c.projection = of_projection AND c.shard = -1 AND c.state = 'stopped';
END
$$;

-- Go on with a projection: it is no longer paused, shards that stopped try again, and each shard has a row that is due, in its queue. One that
-- failed or is a dead letter comes back; where it was cancelled, or is gone, a new one goes on at the checkpoint. What there was to do.
CREATE FUNCTION tenure.resume_projection(
  of_projection text, OUT known boolean, OUT unpaused boolean, OUT again int, OUT made int, OUT brought_back int, OUT hastened int
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ours record;
BEGIN
  SELECT p.paused, p.shards, p.like_types, p.tables, p.on_error, p.queue INTO ours
  FROM tenure.projections AS p WHERE p.projection = of_projection FOR UPDATE;
  known := FOUND;
  IF NOT known THEN
    RETURN;
  END IF;
  unpaused := ours.paused;
  UPDATE tenure.projections AS p SET paused = false WHERE p.projection = of_projection;
  UPDATE tenure.checkpoints AS c SET state = 'running', stopped_at = NULL WHERE c.projection = of_projection AND c.state = 'stopped';
  GET DIAGNOSTICS again = ROW_COUNT;
  UPDATE tenure.checkpoints AS c SET row_id = NULL
  FROM tenure.dead AS d
  WHERE c.projection = of_projection AND d.id = c.row_id AND d.status = 'cancelled';
  WITH raised AS (
    DELETE FROM tenure.dead AS d USING tenure.checkpoints AS c
    WHERE c.projection = of_projection AND d.id = c.row_id
    RETURNING d.id, d.seq, d.created_at, d.lease_generation, d.fence_token, d.max_attempts, d.priority, d.ordered, d.hold, d.kind,
              d.partition_key, d.payload, d.last_error, d.headers
  ), back AS (
    INSERT INTO tenure.live (id, seq, created_at, lease_generation, fence_token, max_attempts, priority, ordered, hold, kind, queue,
                             partition_key, payload, last_error, headers)
    OVERRIDING SYSTEM VALUE
    SELECT r.id, r.seq, r.created_at, r.lease_generation, r.fence_token, r.max_attempts, r.priority, r.ordered, r.hold, r.kind, ours.queue,
           r.partition_key, r.payload, r.last_error, r.headers
    FROM raised AS r
  )
  SELECT count(*) INTO brought_back FROM raised;
  UPDATE tenure.live AS i SET queue = ours.queue, available_at = LEAST(i.available_at, clock_timestamp())
  FROM (SELECT c.row_id FROM tenure.checkpoints AS c WHERE c.projection = of_projection
        UNION ALL SELECT p.rebuild_id FROM tenure.projections AS p WHERE p.projection = of_projection) AS mine
  WHERE i.id = mine.row_id AND i.status = 'pending'
    AND (i.available_at > clock_timestamp() OR i.queue <> ours.queue);
  GET DIAGNOSTICS hastened = ROW_COUNT;
  made := tenure.plan_projection(of_projection, ours.shards, ours.like_types, ours.tables, ours.on_error, ours.queue);
  PERFORM tenure.rouse(ARRAY[ours.queue], ARRAY[NULL]::int[]);
END
$$;
