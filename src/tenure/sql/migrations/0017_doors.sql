-- One check for every door: what comes into the inbox, by whatever way, is something that everybody can read and run.
-- kind: expand

-- As in: kind="aaa…" has 1000 bytes: it must have 1 to 128. Quoted as in JSON, so that no text breaks the line.
CREATE FUNCTION tenure.bytes_of(what text, given text, most int) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN given IS NULL THEN format('%s is NULL: it must have 1 to %s bytes', what, most)
              ELSE format('%s=%s%s has %s bytes: it must have 1 to %s', what, to_json(left(given, 40)),
                          CASE WHEN length(given) > 40 THEN '…' END, octet_length(given), most) END
$$;

-- What is wrong with a row that somebody sends, in one sentence with the value and the limit; NULL if nothing is. The same limits
-- stand in model/limits.py, and docs/reference/limits.md lists them. One expression: it becomes part of the query that asks.
-- A payload of 700 bytes is never too long as text nor too deep: a number of 12 bytes is written with at most 16,383 digits, a level
-- takes 8 bytes. A compressed one may hide more than it shows.
CREATE FUNCTION tenure.fault_of(
  kind text, queue text, partition_key text, idempotency_key text, payload jsonb, headers jsonb, priority int, max_attempts int,
  available_at timestamptz, ordered boolean, hold boolean
) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT COALESCE(
    CASE WHEN kind IS NULL OR octet_length(kind) NOT BETWEEN 1 AND 128 THEN tenure.bytes_of('kind', kind, 128)
         WHEN queue IS NULL OR octet_length(queue) NOT BETWEEN 1 AND 128 THEN tenure.bytes_of('queue', queue, 128)
         WHEN octet_length(partition_key) NOT BETWEEN 1 AND 512 THEN tenure.bytes_of('partition_key', partition_key, 512)
         WHEN octet_length(idempotency_key) NOT BETWEEN 1 AND 512 THEN tenure.bytes_of('idempotency_key', idempotency_key, 512) END,
    CASE WHEN payload IS NULL THEN 'payload is NULL: an empty one is ''{}'''
         WHEN pg_column_size(payload) <= 700 AND pg_column_compression(payload) IS NULL THEN NULL  -- implied: spares the look at short ones
         WHEN octet_length(payload::text) > 1048576 THEN
           format('payload has %s bytes, the limit is 1048576: store the content elsewhere and send its address', octet_length(payload::text))
         WHEN payload @? 'strict $.**{200}' THEN 'payload is nested deeper than 200 levels: flatten it' END,
    CASE WHEN headers IS NULL THEN NULL  -- implied: only quicker
         WHEN jsonb_typeof(headers) <> 'object' THEN
           format('headers=%s must be an object of texts, like {"traceparent": "00-..."}', left(headers::text, 40))
         WHEN octet_length(headers::text) > 4096 THEN
           format('headers have %s bytes, the limit is 4096: put larger values into the payload', octet_length(headers::text))
         WHEN headers @? 'strict $.* ? (@.type() != "string")' THEN
           format('headers=%s must be an object of texts: quote its numbers', left(headers::text, 40)) END,
    CASE WHEN priority IS NULL OR priority NOT BETWEEN -100 AND 100 THEN
           format('priority=%s must be a whole number between -100 and 100', COALESCE(priority::text, 'NULL'))
         WHEN max_attempts IS NULL OR max_attempts NOT BETWEEN 1 AND 10000 THEN
           format('max_attempts=%s must be a whole number between 1 and 10000', COALESCE(max_attempts::text, 'NULL'))
         WHEN available_at IS NULL
           OR available_at NOT BETWEEN statement_timestamp() - interval '3653 days' AND statement_timestamp() + interval '3653 days' THEN  -- implied: no test can tell the statement's clock from the transaction's within ten years
           format('available_at=%s must be within ten years from now', COALESCE(available_at::text, 'NULL'))
         WHEN ordered IS NULL OR hold IS NULL THEN 'ordered and hold must be true or false'
         WHEN ordered AND partition_key IS NULL THEN 'an ordered row needs a partition_key: order is kept per key'
         WHEN hold AND NOT ordered THEN 'hold needs ordered: it keeps the key waiting for an operator' END)
$$;

-- INSERT, COPY and enqueue_many: all rows of a statement at once, when they stand there. The limits of fault_of without its words: a
-- single row pays a third for it. A row that comes back from the dead letters is not new, and comes back as it was: only an owner and
-- the verb that does it can write created_at.
CREATE FUNCTION tenure.refuse_rows() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (
    SELECT FROM arrived AS a
    WHERE a.created_at = statement_timestamp() AND (
      octet_length(a.kind) NOT BETWEEN 1 AND 128
      OR octet_length(a.queue) NOT BETWEEN 1 AND 128
      OR octet_length(a.partition_key) NOT BETWEEN 1 AND 512
      OR octet_length(a.idempotency_key) NOT BETWEEN 1 AND 512
      OR (pg_column_size(a.payload) > 700 OR pg_column_compression(a.payload) IS NOT NULL)  -- implied: spares the look at short ones
         AND (octet_length(a.payload::text) > 1048576 OR a.payload @? 'strict $.**{200}')
      OR a.headers IS NOT NULL  -- implied: only quicker
         AND (jsonb_typeof(a.headers) <> 'object' OR octet_length(a.headers::text) > 4096 OR a.headers @? 'strict $.* ? (@.type() != "string")')
      OR a.priority NOT BETWEEN -100 AND 100
      OR a.max_attempts NOT BETWEEN 1 AND 10000
      OR a.available_at NOT BETWEEN statement_timestamp() - interval '3653 days' AND statement_timestamp() + interval '3653 days'  -- implied: no test can tell the statement's clock from the transaction's within ten years
      OR a.ordered AND a.partition_key IS NULL
      OR a.hold AND NOT a.ordered)
  ) THEN
    RAISE EXCEPTION '%', (
      SELECT tenure.fault_of(a.kind, a.queue, a.partition_key, a.idempotency_key, a.payload, a.headers, a.priority, a.max_attempts,
                             a.available_at, a.ordered, a.hold) AS fault
      FROM arrived AS a ORDER BY fault LIMIT 1) USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER live_sane AFTER INSERT ON tenure.live REFERENCING NEW TABLE AS arrived FOR EACH STATEMENT EXECUTE FUNCTION tenure.refuse_rows();

-- Names that stand in an index are refused before they are put there: an index would refuse them in its own words. As above, a row
-- that comes back comes back as it was.
CREATE FUNCTION tenure.refuse_name() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '%', CASE WHEN octet_length(NEW.queue) > 128 THEN tenure.bytes_of('queue', NEW.queue, 128)
                            ELSE tenure.bytes_of('partition_key', NEW.partition_key, 512) END USING ERRCODE = 'check_violation';
END
$$;
DROP TRIGGER live_key ON tenure.live;  -- live_sane says the same
CREATE TRIGGER live_long BEFORE INSERT ON tenure.live FOR EACH ROW
  WHEN (NEW.created_at = statement_timestamp() AND (octet_length(NEW.partition_key) > 512 OR octet_length(NEW.queue) > 128)) EXECUTE FUNCTION tenure.refuse_name();

CREATE FUNCTION tenure.refuse_idempotency_key() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '%', tenure.bytes_of('idempotency_key', NEW.key, 512) USING ERRCODE = 'check_violation';
END
$$;
CREATE TRIGGER idempotency_long BEFORE INSERT ON tenure.idempotency FOR EACH ROW
  WHEN (octet_length(NEW.key) NOT BETWEEN 1 AND 512) EXECUTE FUNCTION tenure.refuse_idempotency_key();

-- A claim adds one to a token: a row that an operator has inserted with the last number there is would end every worker.
ALTER TABLE tenure.live ADD CONSTRAINT live_token CHECK (lease_generation BETWEEN 0 AND 1::bigint << 62) NOT VALID;

-- The door for psql and every other language: as in 0002_functions.sql, with the check that everybody has.
CREATE OR REPLACE FUNCTION tenure.enqueue(
  kind text, payload jsonb, partition_key text DEFAULT NULL, queue text DEFAULT 'default', priority int DEFAULT 0,
  at timestamptz DEFAULT NULL, delay_seconds float8 DEFAULT 0, idempotency_key text DEFAULT NULL,
  max_attempts int DEFAULT 5, ordered boolean DEFAULT false, hold boolean DEFAULT false,
  headers jsonb DEFAULT NULL
) RETURNS TABLE (row_id uuid, outcome text) LANGUAGE plpgsql AS $$
DECLARE
  fault text := CASE
    WHEN delay_seconds IS NULL OR NOT delay_seconds BETWEEN 0 AND 315576000 THEN
      format('delay_seconds=%s must be between 0 and 315576000: 0 is no delay', COALESCE(delay_seconds::text, 'NULL'))
    WHEN at NOT BETWEEN statement_timestamp() - interval '10 years' AND statement_timestamp() + interval '10 years' THEN  -- implied: no test can tell the statement's clock from the transaction's within ten years
      format('at=%s must be within ten years from now', at)
    WHEN at IS NOT NULL AND delay_seconds <> 0 THEN
      format('at=%s and delay_seconds=%s are two answers to one question: give one', at, delay_seconds)
    ELSE tenure.fault_of(kind, queue, partition_key, idempotency_key, payload, headers, priority, max_attempts, statement_timestamp(), ordered, hold)  -- implied: any time within ten years
  END;
BEGIN
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION '%', fault USING ERRCODE = 'invalid_parameter_value';
  END IF;
  RETURN QUERY SELECT * FROM tenure.enqueue_many(
    ARRAY[kind], ARRAY[payload], ARRAY[partition_key], ARRAY[queue], ARRAY[priority::smallint], ARRAY[at], ARRAY[delay_seconds],
    ARRAY[idempotency_key], ARRAY[max_attempts], ARRAY[ordered], ARRAY[hold], ARRAY[headers]);
END
$$;

-- A line of the audit is carried on by whom the database knows to have begun it.
CREATE FUNCTION tenure.refuse_line() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'line % of the audit was begun by %: only that user carries it on, not %', OLD.id, OLD.database_user, session_user
    USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER audit_own BEFORE UPDATE ON tenure.audit FOR EACH ROW
  WHEN (OLD.database_user <> session_user) EXECUTE FUNCTION tenure.refuse_line();

-- Whoever may enqueue may do so still, before roles are granted anew.
DO $rights$
DECLARE
  grantee text;
BEGIN
  FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_proc AS p, aclexplode(p.proacl) AS a
                 WHERE p.oid = 'tenure.enqueue'::regproc AND a.grantee <> 0 LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenure.fault_of, tenure.bytes_of TO %s', grantee);
  END LOOP;
END
$rights$;
