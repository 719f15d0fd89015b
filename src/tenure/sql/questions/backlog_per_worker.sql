-- backlog_per_worker: the rows there are to run now, for an autoscaler that divides them by how many one worker should have
-- in: (none)
-- out: rows
-- why: what is runnable and what runs, up to 100,000: scaled by the backlog alone, workers would be taken from under their jobs.
-- Paused queues are left out, more workers would not help them; nor would they help a second row of an ordered key.
SELECT (SELECT count(*) FROM (
          SELECT due.id FROM tenure.lanes() AS l
          CROSS JOIN LATERAL (
            SELECT r.id FROM tenure.live AS r
            WHERE NOT r.ordered AND r.queue = l.queue AND r.priority = l.priority AND r.available_at <= statement_timestamp()
            ORDER BY r.available_at LIMIT 100000) AS due
          WHERE l.queue <> ALL (ARRAY(SELECT q.queue FROM tenure.queues AS q WHERE q.paused))
          LIMIT 100000) AS unordered)
     + (SELECT count(*) FROM (
          SELECT DISTINCT r.queue, r.partition_key FROM tenure.live AS r
          WHERE r.ordered AND r.available_at <= statement_timestamp()
            AND r.queue <> ALL (ARRAY(SELECT q.queue FROM tenure.queues AS q WHERE q.paused))
          LIMIT 100000) AS keys) AS rows
LIMIT 1
