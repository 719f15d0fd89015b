-- Wakes: where transactions can be prepared, a row that is sent alone wakes who sleeps, as everywhere.
-- kind: expand
--
-- A statement with parameters that is a transaction of its own is committed when it has ended: current_query() is NULL then, and so was the
-- condition. PREPARE TRANSACTION is a query itself.

CREATE OR REPLACE FUNCTION tenure.wake_at_commit() RETURNS trigger LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  DELETE FROM tenure.wakes AS w WHERE w.id = NEW.id;  -- implied: nobody sees the rows of another transaction, and those of one go together
  IF COALESCE(current_query(), '') !~* 'prepare\s+transaction' THEN
    PERFORM pg_notify(tenure.channel(), tenure.note(NEW.queue, NEW.bucket, NEW.ordered));
  END IF;
  RETURN NULL;
END
$$;
