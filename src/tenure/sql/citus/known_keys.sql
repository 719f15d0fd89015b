-- Idempotency keys, which are known to the whole cluster. These functions run with the owner's rights: nobody else reads or changes the table.
--
--   take_key, note_key    run by Citus on the node of the key: it is taken; then it has a row, or is free again
--   forget                keys that were taken before some time
--   hash_of               what a key stands for: another content under it is a conflict
--   check_closed          TN002 where everybody could run these: so Citus makes them on a node that joins

CREATE OR REPLACE FUNCTION tenure_door.check_closed() RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF has_function_privilege('public', 'tenure_door.forget(timestamptz)', 'EXECUTE') THEN
    RAISE EXCEPTION 'on this node everybody may run the functions of the door: run `tenure migrate --citus` on the coordinator'
      USING ERRCODE = 'TN002';
  END IF;
END
$$;

CREATE OR REPLACE FUNCTION tenure_door.hash_of(kind text, payload jsonb) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  content text := CASE WHEN payload #>> '{$encrypted,digest}' IS NULL THEN payload
                       ELSE jsonb_set(payload, '{$encrypted}', payload #> '{$encrypted,digest}') END::text;
BEGIN
  RETURN sha256(convert_to(kind || chr(31) || content, 'UTF8'));
END
$$;

-- A second sender waits here, on any node, and learns what became of the first: no outcome means that the key is the caller's.
-- One that was committed without a row is nobody's: somebody has called this alone.
CREATE OR REPLACE FUNCTION tenure_door.take_key(routing_key text, hash bytea) RETURNS TABLE (row_id uuid, outcome text) LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
  PERFORM tenure_door.check_closed();
  PERFORM tenure_door.stay(routing_key);
  PERFORM tenure_door.check_home(routing_key);
  INSERT INTO tenure_door.idempotency AS k (key, content_hash, created_at)
  VALUES (routing_key, hash, clock_timestamp())  -- implied: keys are kept for days, and no transaction is so long
  ON CONFLICT (key) DO UPDATE SET content_hash = EXCLUDED.content_hash, created_at = EXCLUDED.created_at
    WHERE k.row_id IS NULL;
  IF NOT FOUND THEN  -- the key has a row; it is locked now, so retention cannot forget it
    RETURN QUERY SELECT k.row_id, CASE WHEN k.content_hash = hash THEN 'duplicate' ELSE 'conflict' END
    FROM tenure_door.idempotency AS k WHERE k.key = routing_key;
  END IF;
END
$$;

-- A key that has a row is nobody's to change.
CREATE OR REPLACE FUNCTION tenure_door.note_key(routing_key text, id uuid) RETURNS void LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
  PERFORM tenure_door.check_closed();
  PERFORM tenure_door.stay(routing_key);  -- implied: take_key holds the range already
  PERFORM tenure_door.check_home(routing_key);
  IF id IS NULL THEN
    DELETE FROM tenure_door.idempotency AS k WHERE k.key = routing_key
      AND k.row_id IS NULL;
  ELSE
    UPDATE tenure_door.idempotency AS k SET row_id = id WHERE k.key = routing_key
      AND k.row_id IS NULL;
  END IF;
END
$$;

CREATE OR REPLACE FUNCTION tenure_door.forget(before timestamptz) RETURNS bigint LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
  n bigint;
BEGIN
  PERFORM tenure_door.check_closed();
  DELETE FROM tenure_door.idempotency AS k WHERE k.created_at < before;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END
$$;
