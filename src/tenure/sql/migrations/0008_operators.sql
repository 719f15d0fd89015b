-- Operators: the audit of what they did, and the note that wakes a fleet for rows they brought back.
-- kind: expand

-- One line an action: begun before its first row is changed, carried on with every batch, done at its end. A line that is
-- not done and does not move any more belongs to an action that was broken off; `rows` says how far it came.
CREATE TABLE tenure.audit (
  id            bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at            timestamptz NOT NULL DEFAULT clock_timestamp(),
  done_at       timestamptz,
  actor         text        NOT NULL,
  via           text        NOT NULL,
  verb          text        NOT NULL,
  target        text        NOT NULL,  -- a filter, or the name of a queue, schedule, worker or key
  reason        text        NOT NULL DEFAULT '',
  rows          bigint      NOT NULL DEFAULT 0,
  database_user text        NOT NULL DEFAULT session_user
);

-- The audit is only ever added to. Carrying a line on until it is done is the one change it takes.
CREATE FUNCTION tenure.keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF OLD.done_at IS NULL
       AND NEW.rows >= OLD.rows
       AND (to_jsonb(NEW) - 'rows' - 'done_at') = (to_jsonb(OLD) - 'rows' - 'done_at') THEN
      RETURN NEW;
    END IF;
  END IF;
  RAISE EXCEPTION 'the audit is only ever added to: % of tenure.audit is refused', lower(TG_OP)
    USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER audit_kept BEFORE UPDATE OR DELETE ON tenure.audit FOR EACH ROW EXECUTE FUNCTION tenure.keep_audit();
CREATE TRIGGER audit_kept_whole BEFORE TRUNCATE ON tenure.audit FOR EACH STATEMENT EXECUTE FUNCTION tenure.keep_audit();

-- Take held rows from their holders, whose tokens are stale from here on. A function of its own: an operator may do this, and
-- neither end a row in another way nor write the columns that make it held.
CREATE FUNCTION tenure.take_back(ids uuid[], generations bigint[], fences bigint[], errors text[]) RETURNS SETOF uuid LANGUAGE sql VOLATILE AS $$
  SELECT e.row_id FROM tenure.end_attempts(ids, generations, fences, 'released', errors, NULL) AS e
$$;

-- Wake whoever sleeps for rows of these queues and buckets, as enqueue does: nobody if nobody sleeps, one note for each queue.
CREATE FUNCTION tenure.rouse(queues text[], buckets int[]) RETURNS void LANGUAGE sql VOLATILE AS $$
  SELECT tenure.wake(s.queue, CASE WHEN count(*) = 1 THEN min(s.bucket) END)
  FROM unnest(queues, buckets) AS s (queue, bucket)
  WHERE EXISTS (SELECT FROM tenure.workers AS w WHERE w.waiting)
  GROUP BY s.queue
$$;
