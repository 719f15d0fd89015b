-- Encrypted payloads under idempotency keys, and a retention for each queue.
-- kind: expand

-- What an idempotency key stands for: the payload; of an encrypted one its digest, because the same content is never encrypted
-- to the same bytes, and because its key may change between two sends.
CREATE FUNCTION tenure.content(payload jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN payload #>> '{$encrypted,digest}' IS NULL THEN payload::text
              ELSE jsonb_set(payload, '{$encrypted}', payload #> '{$encrypted,digest}')::text END
$$;

-- In enqueue_many as it stands, with what the roles have made of it.
DO $change$
DECLARE
  known text := pg_get_functiondef('tenure.enqueue_many'::regproc);
  changed text := replace(known, 's.kind || chr(31) || s.payload::text', 's.kind || chr(31) || tenure.content(s.payload)');
BEGIN
  IF changed = known THEN
    RAISE EXCEPTION 'enqueue_many does not hash what this migration changes';
  END IF;
  EXECUTE changed;
END
$change$;
