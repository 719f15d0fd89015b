-- A row that comes in alone is looked at in less time: what every statement had to read anew moves into a function that is kept.
-- kind: expand

-- A row is held wholly or not at all. As a check, these conditions were read and prepared again by every INSERT, which took as long as
-- two indexes; a claim changes a hundred rows in one statement. What stays a check is for the planner: a question about rows that have
-- ended (cancelled, completed, dead_letter, failed) need not look into this table.
CREATE FUNCTION tenure.refuse_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'live_state: a pending row has no holder, and a processing one has claimed_by, claimed_at, lease_expires_at and claim_id; its token is between 0 and 2^62'
    USING ERRCODE = 'check_violation', CONSTRAINT = 'live_state';
END
$$;
ALTER TABLE tenure.live DROP CONSTRAINT live_state;
ALTER TABLE tenure.live ADD CONSTRAINT live_state CHECK (status >= 'p');
CREATE TRIGGER live_state AFTER UPDATE ON tenure.live
  FOR EACH ROW WHEN (
    num_nonnulls(NEW.claimed_by, NEW.claimed_at, NEW.lease_expires_at, NEW.claim_id) <> CASE NEW.status WHEN 'pending' THEN 0 WHEN 'processing' THEN 4 ELSE -1 END
    OR NEW.lease_generation NOT BETWEEN 0 AND 4611686018427387904)
  EXECUTE FUNCTION tenure.refuse_state();

-- As in 0024_checks.sql, in two looks: most rows are short, due at once, not ordered and without headers, and need only the first. The
-- first look of a transaction costs what the functions cost that it names.
CREATE OR REPLACE FUNCTION tenure.refuse_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  fault text;
BEGIN
  IF NEW.seq NOT BETWEEN 1 AND 9223372036854775806 THEN  -- indexes leave these out: such a row would never be found
    RAISE EXCEPTION 'seq=% must be between 1 and 9223372036854775806', NEW.seq USING ERRCODE = 'check_violation';
  END IF;
  IF num_nonnulls(NEW.claimed_by, NEW.claimed_at, NEW.lease_expires_at, NEW.claim_id) <> (CASE NEW.status WHEN 'pending' THEN 0 WHEN 'processing' THEN 4 ELSE -1 END)
    OR NEW.lease_generation NOT BETWEEN 0 AND 4611686018427387904
  THEN
    RAISE EXCEPTION 'live_state: a pending row has no holder, and a processing one has claimed_by, claimed_at, lease_expires_at and claim_id; its token is between 0 and 2^62'
      USING ERRCODE = 'check_violation', CONSTRAINT = 'live_state';
  END IF;
  IF NEW.created_at = statement_timestamp() AND (
    least(octet_length(NEW.kind), octet_length(NEW.queue), octet_length(NEW.partition_key), octet_length(NEW.idempotency_key)) < 1
    OR greatest(octet_length(NEW.kind), octet_length(NEW.queue), octet_length(NEW.partition_key), octet_length(NEW.idempotency_key)) > 128
    OR NEW.priority NOT BETWEEN -100 AND 100
    OR NEW.max_attempts NOT BETWEEN 1 AND 10000
    OR octet_length(NEW.payload::text) > 400  -- what is shorter is not deep; nine numbers such as 1e131000 take 150 bytes, but not as text
    OR NEW.headers IS NOT NULL
    OR NEW.available_at <> NEW.created_at
    OR NEW.ordered OR NEW.hold)
  THEN
    fault := tenure.fault_of(NEW.kind, NEW.queue, NEW.partition_key, NEW.idempotency_key, NEW.payload, NEW.headers, NEW.priority,
                             NEW.max_attempts, NEW.available_at, NEW.ordered, NEW.hold);
    IF fault IS NOT NULL THEN
      RAISE EXCEPTION '%', fault USING ERRCODE = 'check_violation';
    END IF;
  END IF;
  RETURN NEW;
END
$$;

-- As in 0017_doors.sql, and it looks at more: a number of 12 bytes may be written with 131,072 digits, so nine of them are too long as text. The list of
-- flows reads three headers as numbers, and a worker a fourth: one row with others would keep it from everybody.
CREATE OR REPLACE FUNCTION tenure.fault_of(
  kind text, queue text, partition_key text, idempotency_key text, payload jsonb, headers jsonb, priority int, max_attempts int,
  available_at timestamptz, ordered boolean, hold boolean
) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT COALESCE(
    CASE WHEN kind IS NULL OR octet_length(kind) NOT BETWEEN 1 AND 128 THEN tenure.bytes_of('kind', kind, 128)
         WHEN queue IS NULL OR octet_length(queue) NOT BETWEEN 1 AND 128 THEN tenure.bytes_of('queue', queue, 128)
         WHEN octet_length(partition_key) NOT BETWEEN 1 AND 512 THEN tenure.bytes_of('partition_key', partition_key, 512)
         WHEN octet_length(idempotency_key) NOT BETWEEN 1 AND 512 THEN tenure.bytes_of('idempotency_key', idempotency_key, 512) END,
    CASE WHEN payload IS NULL THEN 'payload is NULL: an empty one is ''{}'''
         WHEN pg_column_size(payload) <= 100 AND pg_column_compression(payload) IS NULL THEN NULL  -- implied: spares the look at short ones
         WHEN octet_length(payload::text) > 1048576 THEN
           format('payload has %s bytes, the limit is 1048576: store the content elsewhere and send its address', octet_length(payload::text))
         WHEN payload @? 'strict $.**{200}' THEN 'payload is nested deeper than 200 levels: flatten it' END,
    CASE WHEN headers IS NULL THEN NULL  -- implied: only quicker
         WHEN jsonb_typeof(headers) <> 'object' THEN
           format('headers=%s must be an object of texts, like {"traceparent": "00-..."}', left(headers::text, 40))
         WHEN octet_length(headers::text) > 4096 THEN
           format('headers have %s bytes, the limit is 4096: put larger values into the payload', octet_length(headers::text))
         WHEN headers @? 'strict $.* ? (@.type() != "string")' THEN
           format('headers=%s must be an object of texts: quote its numbers', left(headers::text, 40))
         WHEN headers ->> 'tenure-run' !~ '^-?([01]?[0-9]{1,9}|20[0-9]{8})$' OR headers ->> 'tenure-version' !~ '^-?([01]?[0-9]{1,9}|20[0-9]{8})$' THEN
           format('tenure-run=%s and tenure-version=%s in headers must be whole numbers below 2100000000', headers -> 'tenure-run', headers -> 'tenure-version')
         WHEN headers ->> 'tenure-deadline' !~ '^\+?([0-9]{1,9}(\.[0-9]{1,9})?|[0-9](\.[0-9]{1,9})?e\+0[0-8])$' THEN
           format('tenure-deadline=%s in headers must be seconds, like "3600"', headers -> 'tenure-deadline')
         WHEN headers ->> 'tenure-redriven' !~ '^[0-9]{1,12}(\.[0-9]{1,9})?$' THEN
           format('tenure-redriven=%s in headers must be seconds since 1970', headers -> 'tenure-redriven') END,
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
