-- series: attempts ended by outcome, and how long rows waited and handlers ran, step by step, the oldest first
-- in: seconds int, step_seconds int, queue text (NULL: all)
-- out: at, completed, retried, released, failed, dead_lettered, cancelled, waits (by bound), runs (by bound)
-- why: it ends with the last period that every worker has had time to add to. Steps in which nothing happened are there as
-- well, with nothing to add. A sum for each bound is longer to read than an unnest, and quicker.
WITH span AS MATERIALIZED (
  SELECT date_bin('10 seconds', statement_timestamp() - interval '6 seconds', 'epoch') AS until
), counted AS (
  SELECT step.at, 0 AS completed, 0 AS retried, 0 AS released, 0 AS failed, 0 AS dead_lettered, 0 AS cancelled,
         '{}'::int[] AS waits, '{}'::int[] AS runs
  FROM span CROSS JOIN LATERAL generate_series(
    span.until - :seconds * interval '1 second', span.until - :step_seconds * interval '1 second', :step_seconds * interval '1 second'
  ) AS step (at)
  UNION ALL
  SELECT date_bin(:step_seconds * interval '1 second', t.at, span.until), t.completed, t.retried, t.released, t.failed,
         t.dead_lettered, t.cancelled, t.waits, t.runs
  FROM span JOIN tenure.tally AS t ON t.at >= span.until - :seconds * interval '1 second' AND t.at < span.until
  WHERE :queue::text IS NULL OR t.queue = :queue
)
SELECT c.at, sum(c.completed), sum(c.retried), sum(c.released), sum(c.failed), sum(c.dead_lettered), sum(c.cancelled),
       ARRAY[sum(c.waits[1]), sum(c.waits[2]), sum(c.waits[3]), sum(c.waits[4]), sum(c.waits[5]), sum(c.waits[6]),
             sum(c.waits[7]), sum(c.waits[8]), sum(c.waits[9]), sum(c.waits[10]), sum(c.waits[11]), sum(c.waits[12]),
             sum(c.waits[13]), sum(c.waits[14]), sum(c.waits[15]), sum(c.waits[16]), sum(c.waits[17])],
       ARRAY[sum(c.runs[1]), sum(c.runs[2]), sum(c.runs[3]), sum(c.runs[4]), sum(c.runs[5]), sum(c.runs[6]), sum(c.runs[7]),
             sum(c.runs[8]), sum(c.runs[9]), sum(c.runs[10]), sum(c.runs[11]), sum(c.runs[12]), sum(c.runs[13]),
             sum(c.runs[14]), sum(c.runs[15]), sum(c.runs[16]), sum(c.runs[17])]
FROM counted AS c
GROUP BY c.at
ORDER BY c.at
LIMIT 10000
