-- limit: set these limits of a queue; NULL leaves one as it is, or, with clear, takes it away
-- in: queue text, max_running int, max_per_key int, rate_per_second float8, burst int, clear boolean
-- out: queue, told
-- why: what the old rate has earned so far is kept, so setting the same limit again is no new burst.
WITH changed AS (
  INSERT INTO tenure.queues AS q (queue, max_running, max_per_key, rate_per_second, burst)
  VALUES (:queue, :max_running::int, :max_per_key::int, :rate_per_second::float8, :burst::int)
  ON CONFLICT (queue) DO UPDATE
  SET max_running = COALESCE(EXCLUDED.max_running, CASE WHEN NOT :clear THEN q.max_running END),
      max_per_key = COALESCE(EXCLUDED.max_per_key, CASE WHEN NOT :clear THEN q.max_per_key END),
      rate_per_second = COALESCE(EXCLUDED.rate_per_second, CASE WHEN NOT :clear THEN q.rate_per_second END),
      burst = COALESCE(EXCLUDED.burst, CASE WHEN NOT :clear THEN q.burst END),
      tokens = tenure.refilled(q.tokens, q.rate_per_second, q.burst, clock_timestamp() - q.refilled_at),
      refilled_at = clock_timestamp(),
      updated_at = clock_timestamp()
  RETURNING q.queue
)
SELECT changed.queue, pg_notify(tenure.channel(), 'queues') FROM changed
