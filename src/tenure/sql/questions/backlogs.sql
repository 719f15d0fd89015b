-- backlogs: how many rows were due, step by step, the oldest first: of the longest queues each, of all others together
-- in: seconds int, step_seconds int, n int
-- out: at, queue (empty: all others), due (the most within the step), more (at least so many)
-- why: a step in which nobody counted has no line at all, which is not the same as nothing due. A zero is written once: when the
-- last one was found again is what the chore says.
WITH span AS MATERIALIZED (
  SELECT date_bin('10 seconds', statement_timestamp() - interval '6 seconds', 'epoch') AS until
), counted AS MATERIALIZED (
  SELECT t.at, t.queue, t.due, t.due_more, span.until
  FROM span JOIN tenure.tally AS t ON t.at >= span.until - :seconds * interval '1 second' AND t.at < span.until
  WHERE t.due IS NOT NULL
  UNION ALL
  SELECT LEAST(date_bin('10 seconds', c.ran_at, 'epoch'), span.until - interval '10 seconds'), '', 0, false, span.until
  FROM span JOIN tenure.chores AS c ON c.name = 'backlog' AND c.ran_at >= span.until - :seconds * interval '1 second'
  WHERE NOT EXISTS (
    SELECT FROM tenure.tally AS t
    WHERE t.due > 0
      AND t.at = (SELECT m.at FROM tenure.tally AS m WHERE m.queue = '' AND m.due IS NOT NULL ORDER BY m.at DESC LIMIT 1))
), longest AS (
  SELECT c.queue FROM counted AS c WHERE c.queue <> '' GROUP BY c.queue ORDER BY sum(c.due) DESC, c.queue LIMIT :n
), by_period AS (
  SELECT c.at, c.until, COALESCE(l.queue, '') AS queue, sum(c.due)::int AS due, bool_or(c.due_more) AS more
  FROM counted AS c LEFT JOIN longest AS l ON l.queue = c.queue
  GROUP BY c.at, c.until, COALESCE(l.queue, '')
)
SELECT date_bin(:step_seconds * interval '1 second', p.at, p.until), p.queue, max(p.due), bool_or(p.more)
FROM by_period AS p
GROUP BY 1, 2
ORDER BY 1, 2
LIMIT 10000
