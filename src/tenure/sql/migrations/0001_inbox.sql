-- Tenure: durable work in Postgres. A job with tenure is never lost.
--
-- Read one name:
--   inbox         every row in every state, with the columns people ask for (a view)
--
-- Where a row stands, one table for each way of being used:
--   live          pending and processing: small, hot, updated in place
--   archive       completed: only ever appended to, one partition a day, dropped by the day
--   dead          failed, dead_letter, cancelled: kept until an operator acts
--
-- What a row leaves behind:
--   attempts      how each attempt ended that did not complete (with the row itself: the lease tape)
--   idempotency   which key was first sent with which content; outlives the row
--   effects       what a job's handler has done once and must not do again
--   fences        the highest token each outside resource has seen
--   keys          ordered keys that are taken: in flight, or held for an operator
--   permits       slots of limited queues and keys that are taken: in flight
--
-- Who works, and where:
--   workers       one row a process: alive, draining or dead
--   queues        what was set for a queue: paused, limits, the rate
--   schedules     which row is to be enqueued when, again and again
--   chores        what housekeeping does, how often, and when it was last done
--   incarnation   which server this is; its epoch is the high part of every fence token
--
-- What is kept for people:
--   tally         what the fleet did, by ten seconds and queue
--   refusals      each write that was refused, and why
--   membership    who joined the ring, left it or died
--   audit         what operators did, to what, and how far it came
--
-- The verbs, one file each in sql/verbs:
--   enqueue, copy                                producers
--   claim, claim_any, claim_ordered, renew       a worker takes rows and keeps them
--   claim_limited                                the same from a queue with limits
--   complete, retry, fail, dead_letter, release  the holder ends an attempt, under its lease
--   enter, once, fence, holding                  the holder guards an effect
--   register, appear, heartbeat, wait, drain, leave   a worker's own row, and its presence
--   tell, echo                                   a note to every worker, or to oneself
--   take_turn, sweep, sweep_workers, notice, evict, archive, vacuum_live   housekeeping
--   plan, tick, unplan, pause_schedule, resume_schedule   what runs by the clock
--   tally, refuse                                what workers write down
--   cancel, redrive, retry_now, release_held, delete, free_key   operators, on rows
--   pause, resume, limit, drain_worker           operators, on queues and workers
--   note, mark, lock_within, lock_free           their audit, and their patience
--
-- Three rules hold everywhere:
--   1. A holder's write carries its token (lease_generation and fence_token) and status = 'processing'.
--   2. Time is the database's: clock_timestamp() in guards and leases, statement_timestamp() in range scans.
--   3. No index mentions a column that claim or renew changes, so both stay HOT updates.

-- kind: expand

-- Time-ordered ids. PostgreSQL 18 has its own; below it, the same layout from a microsecond clock and random bits.
DO $make$
BEGIN
  IF current_setting('server_version_num')::int >= 180000 THEN
    CREATE FUNCTION tenure.new_id() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
      AS 'SELECT uuidv7()';
  ELSE
    CREATE FUNCTION tenure.new_id() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $body$
      SELECT (lpad(to_hex(us / 1000), 12, '0')
              || '7' || lpad(to_hex(us % 1000 * 4096 / 1000), 3, '0')
              || right(translate(gen_random_uuid()::text, '-', ''), 16))::uuid
      FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) AS clock
    $body$;
  END IF;
END
$make$;

-- One immutable expression decides the bucket. It is stored nowhere but in the indexes, so no producer can disagree with it,
-- and a claim does not pay for it: a generated column would be looked at again for every updated row.
-- A row without a key is a stream of its own: it falls where its id falls.
CREATE FUNCTION tenure.bucket(partition_key text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS 'SELECT (hashtextextended(partition_key, 0) & 1023)::int';

-- The columns stand in the order in which a claim pays least for them: fixed and always there, then text, then what is
-- NULL while a row waits.
CREATE TABLE tenure.live (
  id               uuid        NOT NULL DEFAULT tenure.new_id() PRIMARY KEY,
  available_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
  created_at       timestamptz NOT NULL DEFAULT statement_timestamp(),
  seq              bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
  lease_generation bigint      NOT NULL DEFAULT 0,
  fence_token      bigint      NOT NULL DEFAULT 0,
  attempts         int         NOT NULL DEFAULT 0,
  max_attempts     int         NOT NULL DEFAULT 5,
  priority         smallint    NOT NULL DEFAULT 0,
  ordered          boolean     NOT NULL DEFAULT false,
  hold             boolean     NOT NULL DEFAULT false,
  cancel_asked     boolean     NOT NULL DEFAULT false,
  limited          boolean     NOT NULL DEFAULT false,  -- claimed under limits: what ends the attempt gives its permits back
  queue            text        NOT NULL DEFAULT 'default',
  partition_key    text,
  status           text        NOT NULL DEFAULT 'pending',
  kind             text        NOT NULL,
  payload          jsonb       NOT NULL,
  claimed_at       timestamptz,
  lease_expires_at timestamptz,
  claim_id         bigint,
  claimed_by       text,
  idempotency_key  text,
  last_error       text,
  headers          jsonb,  -- what the producer sent along: trace context, and whatever it likes; text to text
  -- For the planner: a question about other states need not look here.
  CONSTRAINT live_status CHECK (status IN ('pending', 'processing')),  -- implied: live_owned_or_free knows no other
  -- A row is owned wholly or not at all. Short on purpose: every statement that writes here reads it anew.
  CONSTRAINT live_owned_or_free CHECK (
    num_nonnulls(claimed_by, claimed_at, lease_expires_at, claim_id)
    = CASE status WHEN 'pending' THEN 0 WHEN 'processing' THEN 4 ELSE -1 END)
) WITH (
  fillfactor = 45,  -- room on each page for the claim of all its rows at once: a claimed row is longer than a pending one
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- A worker that has the ring to itself walks this one: a lane (queue, priority), then time.
CREATE INDEX live_due ON tenure.live (queue, priority, available_at) WHERE NOT ordered;
-- A worker that shares it walks this one: a lane, a bucket, then time.
CREATE INDEX live_ready ON tenure.live (queue, priority, tenure.bucket(COALESCE(partition_key, id::text)), available_at) WHERE NOT ordered;
-- The ordered claim walks this one: the first row of each key is its head.
CREATE INDEX live_heads ON tenure.live (queue, tenure.bucket(partition_key), partition_key, seq) WHERE ordered;

-- COPY and INSERT pass no function that checks. A trigger and not a CHECK: only what comes in pays for it, no claim. AFTER: COPY
-- still writes many rows at once.
CREATE FUNCTION tenure.refuse_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '%', CASE WHEN NEW.partition_key = '' THEN 'partition_key is empty: give a key, or NULL for none'
    ELSE 'an ordered row needs a partition_key: order is kept per key' END USING ERRCODE = 'check_violation';
END
$$;
CREATE TRIGGER live_key AFTER INSERT ON tenure.live FOR EACH ROW
  WHEN (NEW.partition_key = '' OR NEW.ordered AND NEW.partition_key IS NULL) EXECUTE FUNCTION tenure.refuse_key();

CREATE TABLE tenure.archive (
  id               uuid        NOT NULL,
  created_at       timestamptz NOT NULL,
  available_at     timestamptz NOT NULL,
  claimed_at       timestamptz NOT NULL,
  completed_at     timestamptz NOT NULL,
  lease_generation bigint      NOT NULL,
  fence_token      bigint      NOT NULL,
  attempts         int         NOT NULL,
  max_attempts     int         NOT NULL,
  priority         smallint    NOT NULL,
  ordered          boolean     NOT NULL,
  kind             text        NOT NULL,
  queue            text        NOT NULL,
  partition_key    text,
  finished_by      text        NOT NULL,
  idempotency_key  text,
  payload          jsonb       NOT NULL,
  last_error       text,
  headers          jsonb
) PARTITION BY RANGE (completed_at);
-- Ids are time-ordered: a completion adds its entry at the right edge, and a row is found again however long the history.
CREATE INDEX archive_id ON tenure.archive (id);
-- Holds a row even on a day for which nobody made a partition.
CREATE TABLE tenure.archive_rest PARTITION OF tenure.archive DEFAULT;

CREATE TABLE tenure.dead (
  id               uuid        NOT NULL PRIMARY KEY,
  seq              bigint      NOT NULL,
  created_at       timestamptz NOT NULL,
  available_at     timestamptz NOT NULL,
  claimed_at       timestamptz,
  finished_at      timestamptz NOT NULL,
  lease_generation bigint      NOT NULL,
  fence_token      bigint      NOT NULL,
  attempts         int         NOT NULL,
  max_attempts     int         NOT NULL,
  priority         smallint    NOT NULL,
  ordered          boolean     NOT NULL,
  hold             boolean     NOT NULL,
  status           text        NOT NULL CHECK (status IN ('failed', 'dead_letter', 'cancelled')),
  kind             text        NOT NULL,
  queue            text        NOT NULL,
  partition_key    text,
  finished_by      text,
  idempotency_key  text,
  payload          jsonb       NOT NULL,
  last_error       text,
  headers          jsonb
);
CREATE INDEX dead_by_kind ON tenure.dead (status, kind, finished_at);

CREATE VIEW tenure.inbox AS
  SELECT id, COALESCE(partition_key, id::text) AS partition_key,
         tenure.bucket(COALESCE(partition_key, id::text)) AS partition_bucket, payload, status, attempts, max_attempts,
         claimed_by, claimed_at, lease_expires_at, lease_generation, available_at, NULL::timestamptz AS completed_at,
         last_error, idempotency_key, created_at,
         kind, queue, priority, ordered, fence_token, cancel_asked, NULL::timestamptz AS finished_at, NULL::text AS finished_by,
         headers
  FROM tenure.live
  UNION ALL
  SELECT id, COALESCE(partition_key, id::text), tenure.bucket(COALESCE(partition_key, id::text)), payload, status, attempts, max_attempts,
         NULL, claimed_at, NULL, lease_generation, available_at, NULL,
         last_error, idempotency_key, created_at,
         kind, queue, priority, ordered, fence_token, false, finished_at, finished_by, headers
  FROM tenure.dead
  UNION ALL
  SELECT id, COALESCE(partition_key, id::text), tenure.bucket(COALESCE(partition_key, id::text)), payload, 'completed', attempts, max_attempts,
         NULL, claimed_at, NULL, lease_generation, available_at, completed_at,
         last_error, idempotency_key, created_at,
         kind, queue, priority, ordered, fence_token, false, completed_at, finished_by, headers
  FROM tenure.archive;

CREATE TABLE tenure.attempts (
  row_id           uuid        NOT NULL,
  fence_token      bigint      NOT NULL,
  lease_generation bigint      NOT NULL,
  worker           text        NOT NULL,
  claimed_at       timestamptz NOT NULL,
  ended_at         timestamptz NOT NULL,
  outcome          text        NOT NULL
                   CHECK (outcome IN ('retried', 'released', 'expired', 'failed', 'dead_lettered')),
  error            text,
  PRIMARY KEY (row_id, fence_token)
);

CREATE INDEX attempts_ended ON tenure.attempts USING brin (ended_at);

CREATE TABLE tenure.idempotency (
  key          text        NOT NULL PRIMARY KEY,
  row_id       uuid        NOT NULL,
  content_hash bytea       NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT statement_timestamp()
);

CREATE INDEX idempotency_created ON tenure.idempotency USING brin (created_at);

CREATE TABLE tenure.effects (
  row_id      uuid        NOT NULL,
  effect      text        NOT NULL,
  fence_token bigint      NOT NULL,
  done_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (row_id, effect)
);

CREATE INDEX effects_done ON tenure.effects USING brin (done_at);

CREATE TABLE tenure.fences (
  resource    text        NOT NULL PRIMARY KEY,
  fence_token bigint      NOT NULL,
  written_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE tenure.keys (
  queue         text NOT NULL,
  partition_key text NOT NULL,
  row_id        uuid NOT NULL UNIQUE,
  PRIMARY KEY (queue, partition_key)
);

CREATE TABLE tenure.workers (
  id           text        NOT NULL PRIMARY KEY,
  status       text        NOT NULL DEFAULT 'alive' CHECK (status IN ('alive', 'draining', 'dead')),
  last_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  started_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
  metadata     jsonb       NOT NULL DEFAULT '{}',
  waiting      boolean     NOT NULL DEFAULT false,  -- it sleeps and wants to be woken by an enqueue
  presence     bigint,       -- the advisory lock its session holds while it is there; NULL: it has none, leases alone decide
  gone_at      timestamptz   -- since when that session has been missed
) WITH (fillfactor = 50);

CREATE TABLE tenure.incarnation (
  only_row          boolean NOT NULL DEFAULT true PRIMARY KEY CHECK (only_row),
  epoch             int     NOT NULL,
  ahead             bigint  NOT NULL DEFAULT 0,  -- added to the sequence: where in time this epoch began
  system_identifier bigint  NOT NULL,
  timeline          int     NOT NULL,
  table_oid         oid     NOT NULL,  -- of this very table: a dump restored beside or over it has another
  started_at        timestamptz        -- when that server last started; while it runs it cannot become another
);
CREATE SEQUENCE tenure.fence_seq;
