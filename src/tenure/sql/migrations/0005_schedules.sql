-- Schedules: which row is to be enqueued when, again and again; the fleet fires each tick once.
-- kind: expand

-- No index but the name: next_at changes with every tick, and a table of schedules is short.
CREATE TABLE tenure.schedules (
  name          text        NOT NULL PRIMARY KEY,
  cron          text        NOT NULL,
  zone          text        NOT NULL,
  next_at       timestamptz NOT NULL,
  last_at       timestamptz,
  paused        boolean     NOT NULL DEFAULT false,
  misfire       text        NOT NULL CHECK (misfire IN ('once', 'skip', 'all')),
  kind          text        NOT NULL,
  payload       jsonb       NOT NULL,
  tick_as       text,
  queue         text        NOT NULL,
  partition_key text,
  priority      smallint    NOT NULL,
  max_attempts  int         NOT NULL,
  ordered       boolean     NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at    timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
