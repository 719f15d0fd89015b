-- A row that comes in is looked at once, by a function that sees the row itself.
-- kind: expand

-- What comes in by whatever door, row by row and before an index sees it: an index would refuse a long name in its own words. A row
-- that comes back from the dead letters is not new, and comes back as it was: only an owner and the verb that does it can write
-- created_at. Of a statement with one row, a look at all its rows afterwards took a fifth.
CREATE FUNCTION tenure.refuse_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.seq NOT BETWEEN 1 AND 9223372036854775806 THEN  -- indexes leave these out: such a row would never be found
    RAISE EXCEPTION 'seq=% must be between 1 and 9223372036854775806', NEW.seq USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.created_at = statement_timestamp() AND (
    octet_length(NEW.kind) NOT BETWEEN 1 AND 128
    OR octet_length(NEW.queue) NOT BETWEEN 1 AND 128
    OR octet_length(NEW.partition_key) NOT BETWEEN 1 AND 512
    OR octet_length(NEW.idempotency_key) NOT BETWEEN 1 AND 512
    OR (pg_column_size(NEW.payload) > 700 OR pg_column_compression(NEW.payload) IS NOT NULL)  -- implied: spares the look at short ones
       AND (octet_length(NEW.payload::text) > 1048576 OR NEW.payload @? 'strict $.**{200}')
    OR NEW.headers IS NOT NULL  -- implied: only quicker
       AND (jsonb_typeof(NEW.headers) <> 'object' OR octet_length(NEW.headers::text) > 4096 OR NEW.headers @? 'strict $.* ? (@.type() != "string")')
    OR NEW.priority NOT BETWEEN -100 AND 100
    OR NEW.max_attempts NOT BETWEEN 1 AND 10000
    OR NEW.available_at NOT BETWEEN statement_timestamp() - interval '3653 days' AND statement_timestamp() + interval '3653 days'  -- implied: no test can tell the statement's clock from the transaction's within ten years
    OR NEW.ordered AND NEW.partition_key IS NULL
    OR NEW.hold AND NOT NEW.ordered)
  THEN
    RAISE EXCEPTION '%', tenure.fault_of(NEW.kind, NEW.queue, NEW.partition_key, NEW.idempotency_key, NEW.payload, NEW.headers, NEW.priority,
                                         NEW.max_attempts, NEW.available_at, NEW.ordered, NEW.hold) USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END
$$;
DROP TRIGGER live_sane ON tenure.live;
DROP TRIGGER live_long ON tenure.live;  -- live_sane says the same
CREATE TRIGGER live_sane BEFORE INSERT ON tenure.live FOR EACH ROW EXECUTE FUNCTION tenure.refuse_row();
DROP FUNCTION tenure.refuse_rows;
DROP FUNCTION tenure.refuse_name;
DROP FUNCTION tenure.refuse_key;

-- A row is held wholly or not at all. A claim adds one to a token: a row that somebody has inserted with the last number there is
-- would end every worker. One check instead of three, and in plain numbers: every statement that writes here reads them anew. The
-- states stand first, for the planner: a question about others need not look into this table.
ALTER TABLE tenure.live
  DROP CONSTRAINT live_owned_or_free,
  DROP CONSTRAINT live_token,
  DROP CONSTRAINT live_seq,
  ADD CONSTRAINT live_state CHECK (
    status IN ('pending', 'processing')
    AND num_nonnulls(claimed_by, claimed_at, lease_expires_at, claim_id) = CASE status WHEN 'pending' THEN 0 ELSE 4 END
    AND lease_generation BETWEEN 0 AND 4611686018427387904);
