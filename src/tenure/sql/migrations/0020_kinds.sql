-- What the handlers of a kind declared, for producers that cannot import them; and a budget of attempts that outlives an outage.
-- kind: expand

-- Ten attempts are used up after 17 minutes, not after 30 seconds: docs/decisions/0011-retry-budget.md.
ALTER TABLE tenure.live ALTER COLUMN max_attempts SET DEFAULT 10;

-- One row for each way in which a kind was declared. Two versions of an application, or two applications, may declare it in two
-- ways: a new row goes by the one that a living worker has, and among these by the one whose worker started last. Workers that are gone leave their declarations here for a month.
CREATE TABLE tenure.kinds (
  kind         text        NOT NULL,
  form         text        NOT NULL,  -- a hash of what follows, up to encrypted
  queue        text        NOT NULL,
  keyed        text        NOT NULL CHECK (keyed IN ('never', 'by_template', 'in_code')),
  key_template text        CHECK ((key_template IS NOT NULL) = (keyed = 'by_template')),
  ordered      boolean     NOT NULL,
  hold         boolean     NOT NULL,
  priority     smallint    NOT NULL,
  max_attempts int         NOT NULL,
  encrypted    boolean     NOT NULL,  -- its payload, or a part of it, by whoever has the key
  worker       text        NOT NULL,  -- who declared it last
  started_at   timestamptz NOT NULL,  -- the latest start of a worker that declared it
  seen_at      timestamptz NOT NULL,
  PRIMARY KEY (kind, form)
);

-- The key of a row by its template, such as order:{order_id}; NULL if the payload lacks a field that it names, or has neither text nor
-- a whole number there: Python may write another value differently.
CREATE FUNCTION tenure.key_by(template text, payload jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  made text := '';
  part text[];
BEGIN
  FOR part IN SELECT regexp_matches(template, '([^{}]+)|\{([^{}]+)\}', 'g') LOOP
    made := made || CASE
      WHEN part[1] IS NOT NULL THEN part[1]
      WHEN jsonb_typeof(payload -> part[2]) = 'string' THEN payload ->> part[2]
      WHEN jsonb_typeof(payload -> part[2]) = 'number' AND payload ->> part[2] ~ '^-?\d+$' THEN payload ->> part[2] END;
  END LOOP;
  RETURN made;
END
$$;

-- The ways in which a kind was declared: the first is what a new row goes by, none if nobody has declared it. Those come first whose
-- queue is served by a living worker that has the kind. It runs with its owner's
-- rights: whoever may enqueue may know how, and a producer sees nothing else.
CREATE FUNCTION tenure.declared(the_kind text) RETURNS SETOF tenure.kinds LANGUAGE sql STABLE SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
  SELECT k.kind, k.form, k.queue, k.keyed, k.key_template, k.ordered, k.hold, k.priority, k.max_attempts, k.encrypted, k.worker, k.started_at, k.seen_at
  FROM tenure.kinds AS k
  WHERE k.kind = the_kind
  ORDER BY EXISTS (SELECT FROM tenure.workers AS w
                   WHERE w.status = 'alive' AND w.metadata -> 'kinds' ? k.kind AND w.metadata -> 'queues' ? k.queue) DESC,
           k.started_at DESC, k.seen_at DESC, k.form
  LIMIT 20
$$;

-- For psql and every other language. What is not given is what the handler of the kind declared, as far as SQL can know it: a key
-- that only Python code can make is left out, with a notice; an ordered row is then refused. What the handler has encrypted is not
-- taken in clear.
ALTER FUNCTION tenure.enqueue(text, jsonb, text, text, int, timestamptz, float8, text, int, boolean, boolean, jsonb) RENAME TO enqueue_as_given;

CREATE FUNCTION tenure.enqueue(
  kind text, payload jsonb, partition_key text DEFAULT NULL, queue text DEFAULT NULL, priority int DEFAULT NULL,
  at timestamptz DEFAULT NULL, delay_seconds float8 DEFAULT 0, idempotency_key text DEFAULT NULL,
  max_attempts int DEFAULT NULL, ordered boolean DEFAULT NULL, hold boolean DEFAULT NULL,
  headers jsonb DEFAULT NULL
) RETURNS TABLE (row_id uuid, outcome text) LANGUAGE plpgsql AS $$
DECLARE
  known tenure.kinds;
BEGIN
  SELECT * INTO known FROM tenure.declared(kind) LIMIT 1;
  IF known IS NULL AND queue IS NULL THEN
    RAISE NOTICE 'no worker has declared kind % yet: the row goes to queue default', kind;
  END IF;
  IF known.encrypted AND NOT COALESCE(payload @@ 'strict $."$encrypted".key.type() == "string" && $."$encrypted".print.type() == "string"
                                                  && $."$encrypted".data.type() == "string"', false) THEN
    RAISE EXCEPTION 'rows of % are encrypted, and this one would stand in clear: send it from Python, with the codec', kind
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF partition_key IS NULL AND known.keyed <> 'never' THEN
    partition_key := tenure.key_by(known.key_template, payload);
    IF partition_key IS NULL THEN
      IF COALESCE(ordered, known.ordered) THEN
        RAISE EXCEPTION 'the handler of % keeps its rows in order, and its key%cannot be made here: give partition_key', kind,
          COALESCE(' ' || known.key_template || ' ', ' ') USING ERRCODE = 'invalid_parameter_value';
      END IF;
      RAISE NOTICE 'the key of % cannot be made here, the row goes without one: give partition_key', kind;
    END IF;
  END IF;
  RETURN QUERY SELECT sent.row_id, sent.outcome FROM tenure.enqueue_as_given(
    kind, payload, partition_key, COALESCE(queue, known.queue, 'default'), COALESCE(priority, known.priority::int, 0), at, delay_seconds,
    idempotency_key, COALESCE(max_attempts, known.max_attempts, 10), COALESCE(ordered, known.ordered, false),
    COALESCE(hold, known.hold AND COALESCE(ordered, true), false), headers) AS sent;
END
$$;

-- Whoever may enqueue may do so still: the rights on the function that has given its name away.
DO $rights$
DECLARE
  grantee text;
BEGIN
  FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_proc AS p, aclexplode(p.proacl) AS a
                 WHERE p.oid = 'tenure.enqueue_as_given'::regproc AND a.grantee <> 0 LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenure.enqueue, tenure.declared, tenure.key_by TO %s', grantee);
  END LOOP;
END
$rights$;
