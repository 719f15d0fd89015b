-- A row that comes in alone is looked at in less time once more: one look where three were, and the length of its idempotency key in half the time.
-- kind: expand

-- As in 0042_rows_looked_at.sql. Nearly every row is new, short, pending, due at once, not ordered and without headers: the first look
-- says so, and every row that is to be refused fails it, but for a NULL where the column itself refuses one.
CREATE OR REPLACE FUNCTION tenure.refuse_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  fault text;
BEGIN
  IF NEW.seq BETWEEN 1 AND 9223372036854775806
    AND NEW.status = 'pending' AND NEW.claimed_by IS NULL AND NEW.claimed_at IS NULL AND NEW.lease_expires_at IS NULL AND NEW.claim_id IS NULL
    AND NEW.lease_generation = 0
    AND NEW.created_at = statement_timestamp()
    AND least(NEW.kind, NEW.queue, NEW.partition_key, NEW.idempotency_key) <> ''
    AND greatest(octet_length(NEW.kind), octet_length(NEW.queue), octet_length(NEW.partition_key), octet_length(NEW.idempotency_key)) <= 128
    AND NEW.priority BETWEEN -100 AND 100
    AND NEW.max_attempts BETWEEN 1 AND 10000
    AND octet_length(NEW.payload::text) <= 400  -- what is shorter is not deep; nine numbers such as 1e131000 take 150 bytes, but not as text
    AND NEW.headers IS NULL
    AND NEW.available_at = NEW.created_at
    AND NOT NEW.ordered AND NOT NEW.hold
  THEN
    RETURN NEW;
  END IF;
  IF NEW.seq NOT BETWEEN 1 AND 9223372036854775806 THEN  -- indexes leave these out: such a row would never be found
    RAISE EXCEPTION 'seq=% must be between 1 and 9223372036854775806', NEW.seq USING ERRCODE = 'check_violation';
  END IF;
  IF num_nonnulls(NEW.claimed_by, NEW.claimed_at, NEW.lease_expires_at, NEW.claim_id) <> (CASE NEW.status WHEN 'pending' THEN 0 WHEN 'processing' THEN 4 ELSE -1 END)
    OR NEW.lease_generation NOT BETWEEN 0 AND 4611686018427387904
  THEN
    RAISE EXCEPTION 'live_state: a pending row has no holder, and a processing one has claimed_by, claimed_at, lease_expires_at and claim_id; its token is between 0 and 2^62'
      USING ERRCODE = 'check_violation', CONSTRAINT = 'live_state';
  END IF;
  IF NEW.created_at = statement_timestamp() THEN
    fault := tenure.fault_of(NEW.kind, NEW.queue, NEW.partition_key, NEW.idempotency_key, NEW.payload, NEW.headers, NEW.priority,
                             NEW.max_attempts, NEW.available_at, NEW.ordered, NEW.hold);
    IF fault IS NOT NULL THEN
      RAISE EXCEPTION '%', fault USING ERRCODE = 'check_violation';
    END IF;
  END IF;
  RETURN NEW;
END
$$;

-- The condition of a trigger is read and prepared anew by every statement; what a function looks at is kept.
CREATE OR REPLACE FUNCTION tenure.refuse_idempotency_key() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF octet_length(NEW.key) NOT BETWEEN 1 AND 512 THEN
    RAISE EXCEPTION '%', tenure.bytes_of('idempotency_key', NEW.key, 512) USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END
$$;
DROP TRIGGER idempotency_long ON tenure.idempotency;
CREATE TRIGGER idempotency_long BEFORE INSERT ON tenure.idempotency FOR EACH ROW EXECUTE FUNCTION tenure.refuse_idempotency_key();
