-- plan: enter a schedule, or change the one of that name
-- in: name text, cron text, zone text, next_at timestamptz, misfire text, kind text, payload text (JSON), tick_as text
-- in: queue text, partition_key text, priority smallint, max_attempts int, ordered boolean
-- out: next_at
-- why: every process of a deploy plans the same schedules. While cron and zone stay the same next_at stays too, so
-- that none of them skips a tick that is due; and what an operator paused stays paused. One that rested is due again.
INSERT INTO tenure.schedules AS s (name, cron, zone, next_at, misfire, kind, payload, tick_as, queue, partition_key, priority, max_attempts, ordered)
VALUES (:name, :cron, :zone, :next_at, :misfire, :kind, :payload::jsonb, :tick_as, :queue, :partition_key, :priority, :max_attempts, :ordered)
ON CONFLICT (name) DO UPDATE SET
  next_at = CASE WHEN (s.cron, s.zone) = (excluded.cron, excluded.zone) AND s.next_at < '9999-01-01T00:00:00Z' THEN s.next_at
                 ELSE excluded.next_at END,
  cron = excluded.cron, zone = excluded.zone, misfire = excluded.misfire, kind = excluded.kind, payload = excluded.payload,
  tick_as = excluded.tick_as, queue = excluded.queue, partition_key = excluded.partition_key, priority = excluded.priority,
  max_attempts = excluded.max_attempts, ordered = excluded.ordered, updated_at = clock_timestamp()
RETURNING s.next_at
