-- pause: start no more rows of this queue; jobs that run go on
-- in: queue text
-- out: queue, told (nothing at all if it was paused already)
WITH changed AS (
  INSERT INTO tenure.queues AS q (queue, paused) VALUES (:queue, true)
  ON CONFLICT (queue) DO UPDATE SET paused = true, updated_at = clock_timestamp()
    WHERE NOT q.paused
  RETURNING q.queue
)
SELECT changed.queue, pg_notify(tenure.channel(), 'queues') FROM changed
