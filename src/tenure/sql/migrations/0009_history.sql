-- What happened lately, for the pictures: counts by ten seconds, each refused write, who joined, left or died.
-- kind: expand

-- History never stands in the way of work: whoever writes here waits a tenth of a second for a lock, and then goes without.

-- One row for ten seconds of a queue in which something happened, whoever worked: each worker adds its own. A few MB a day for a
-- queue that never rests, kept as long as the archive. What belongs to no queue in particular stands under the empty name.
CREATE TABLE tenure.tally (
  at                   timestamptz NOT NULL,  -- when the ten seconds began
  queue                text        NOT NULL,
  acquired             int         NOT NULL,
  reclaimed            int         NOT NULL,
  renewed              int         NOT NULL,
  expired              int         NOT NULL,
  lost                 int         NOT NULL,
  stale_writes_blocked int         NOT NULL,
  completed            int         NOT NULL,
  retried              int         NOT NULL,
  released             int         NOT NULL,
  failed               int         NOT NULL,
  dead_lettered        int         NOT NULL,
  cancelled            int         NOT NULL,
  waits                int[]       NOT NULL,  -- how many waited up to 0.005 s, 0.01 s ... 3600 s, and longer
  runs                 int[]       NOT NULL,  -- how many ran as long
  PRIMARY KEY (at, queue)
) WITH (fillfactor = 70);  -- room for a worker to add to the row on its page

CREATE TABLE tenure.refusals (
  id            bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at            timestamptz NOT NULL,
  row_id        uuid        NOT NULL,
  worker        text        NOT NULL,
  verb          text        NOT NULL,
  kind          text        NOT NULL,  -- empty if the row was nowhere to be found
  stale_token   bigint      NOT NULL,
  current_token bigint,
  reason        text        NOT NULL
);
CREATE INDEX refusals_row ON tenure.refusals (row_id, id);

CREATE TABLE tenure.membership (
  id     bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  worker text        NOT NULL,
  what   text        NOT NULL CHECK (what IN ('joined', 'left', 'died')),
  queues jsonb
);

CREATE FUNCTION tenure.sum_each(these int[], those int[]) RETURNS int[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT array_agg(pair.this + pair.that ORDER BY pair.nth)
  FROM unnest(these, those) WITH ORDINALITY AS pair (this, that, nth)
$$;

-- Of these rows, taken under these generations: how many were taken up after an attempt that expired?
CREATE FUNCTION tenure.reclaimed(ids uuid[], generations bigint[]) RETURNS int LANGUAGE sql STABLE AS $$
  SELECT count(*)::int FROM unnest(ids, generations) AS taken (id, generation)
  WHERE EXISTS (SELECT FROM tenure.attempts AS t
                WHERE t.row_id = taken.id
                  AND t.lease_generation = taken.generation - 1
                  AND t.outcome = 'expired')
$$;

-- Add slots of ten seconds, each so many before the one that has its middle age_seconds ago. Workers come in any order
-- and add to the same rows: those are locked in the order of their key.
CREATE FUNCTION tenure.add_tally(slots jsonb, age_seconds float8) RETURNS void LANGUAGE plpgsql
  SET lock_timeout = '100ms'
AS $$
DECLARE
  newest timestamptz := date_bin('10 seconds', clock_timestamp() - age_seconds * interval '1 second', 'epoch');  -- implied: called in a transaction of its own
BEGIN
  INSERT INTO tenure.tally AS t (at, queue, acquired, reclaimed, renewed, expired, lost, stale_writes_blocked, completed, retried,
                                 released, failed, dead_lettered, cancelled, waits, runs)
  SELECT newest - s.back * interval '10 seconds', s.queue, s.acquired, tenure.reclaimed(s.again, s.generations), s.renewed, s.expired,
         s.lost, s.stale_writes_blocked, s.completed, s.retried, s.released, s.failed, s.dead_lettered, s.cancelled, s.waits, s.runs
  FROM jsonb_to_recordset(slots) AS s (
    back int, queue text, acquired int, again uuid[], generations bigint[], renewed int, expired int, lost int,
    stale_writes_blocked int, completed int, retried int, released int, failed int, dead_lettered int, cancelled int,
    waits int[], runs int[])
  ORDER BY 1, 2
  ON CONFLICT (at, queue) DO UPDATE SET
    acquired = t.acquired + EXCLUDED.acquired, reclaimed = t.reclaimed + EXCLUDED.reclaimed, renewed = t.renewed + EXCLUDED.renewed,
    expired = t.expired + EXCLUDED.expired, lost = t.lost + EXCLUDED.lost,
    stale_writes_blocked = t.stale_writes_blocked + EXCLUDED.stale_writes_blocked, completed = t.completed + EXCLUDED.completed,
    retried = t.retried + EXCLUDED.retried, released = t.released + EXCLUDED.released, failed = t.failed + EXCLUDED.failed,
    dead_lettered = t.dead_lettered + EXCLUDED.dead_lettered, cancelled = t.cancelled + EXCLUDED.cancelled,
    waits = tenure.sum_each(t.waits, EXCLUDED.waits), runs = tenure.sum_each(t.runs, EXCLUDED.runs);
END
$$;

CREATE FUNCTION tenure.note_refusals(refusals jsonb) RETURNS bigint LANGUAGE plpgsql
  SET lock_timeout = '100ms'
AS $$
DECLARE
  n bigint;
BEGIN
  INSERT INTO tenure.refusals (at, row_id, worker, verb, kind, stale_token, current_token, reason)
  SELECT clock_timestamp() - r.age_seconds * interval '1 second', r.row_id, r.worker, r.verb,  -- implied: called in a transaction of its own
         COALESCE((SELECT i.kind FROM tenure.inbox AS i WHERE i.id = r.row_id LIMIT 1), ''), r.stale_token, r.current_token, r.reason
  FROM jsonb_to_recordset(refusals) AS r (
    age_seconds float8, row_id uuid, worker text, verb text, stale_token bigint, current_token bigint, reason text);
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END
$$;

-- A ring is made of the workers that are alive: one that drains has left it, one that is dead has died out of it. Noted
-- here for every verb that changes a worker's status, those of operators included.
CREATE FUNCTION tenure.note_membership() RETURNS trigger LANGUAGE plpgsql
  SET lock_timeout = '100ms'
AS $$
BEGIN
  IF OLD.status <> 'alive' OR NEW.status = OLD.status THEN
    RETURN NULL;
  END IF;
  INSERT INTO tenure.membership (worker, what, queues)
  VALUES (COALESCE(NEW.id, OLD.id), CASE NEW.status WHEN 'alive' THEN 'joined' WHEN 'dead' THEN 'died' ELSE 'left' END,
          COALESCE(NEW.metadata, OLD.metadata) -> 'queues');
  RETURN NULL;
EXCEPTION WHEN OTHERS  -- also where somebody has taken the right to write here: a worker starts all the same
THEN
  RETURN NULL;
END
$$;
CREATE TRIGGER workers_membership AFTER INSERT OR DELETE OR UPDATE OF status ON tenure.workers
  FOR EACH ROW EXECUTE FUNCTION tenure.note_membership();

-- Forget what is past retention, the oldest first. A lock it cannot have within a second ends the round, and spoils no other chore.
-- As in keep_archive, nothing younger than an hour, nor more than 10,000 at once.
CREATE FUNCTION tenure.keep_history(retention interval DEFAULT '14 days', batch int DEFAULT 1000)
RETURNS TABLE (what text, n bigint) LANGUAGE plpgsql
  SET lock_timeout = '1s'
AS $$
#variable_conflict use_column
DECLARE
  oldest timestamptz := clock_timestamp() - GREATEST(retention, interval '1 hour');  -- implied: called in a transaction of its own
  most int := LEAST(batch, 10000);
BEGIN
  DELETE FROM tenure.tally WHERE (at, queue) IN (
    SELECT t.at, t.queue FROM tenure.tally AS t WHERE t.at < oldest ORDER BY t.at, t.queue LIMIT most);
  GET DIAGNOSTICS n = ROW_COUNT; what := 'slots_forgotten'; RETURN NEXT;

  DELETE FROM tenure.refusals AS r USING (SELECT f.id FROM tenure.refusals AS f ORDER BY f.id LIMIT most) AS first
  WHERE r.id = first.id
    AND r.at < oldest;
  GET DIAGNOSTICS n = ROW_COUNT; what := 'refusals_forgotten'; RETURN NEXT;

  DELETE FROM tenure.membership AS m USING (SELECT f.id FROM tenure.membership AS f ORDER BY f.id LIMIT most) AS first
  WHERE m.id = first.id
    AND m.at < oldest;
  GET DIAGNOSTICS n = ROW_COUNT; what := 'memberships_forgotten'; RETURN NEXT;
EXCEPTION WHEN lock_not_available
THEN
  RETURN;
END
$$;
