-- backlog: how many rows are runnable or processing, for an autoscaler
-- in: (none)
-- out: rows
-- why: what is runnable and what runs, up to 100,000: scaled by the backlog alone, workers would be taken from under their jobs.
-- Paused queues are left out, more workers would not help them; nor would they help a second row of an ordered key, so of a key its
-- first row counts: one probe a key, 10,000 keys of a queue at most.
SELECT (SELECT count(*) FROM (
          SELECT due.id FROM tenure.lanes() AS l
          CROSS JOIN LATERAL (
            SELECT r.id FROM tenure.live AS r
            WHERE NOT r.ordered AND r.seq < 9223372036854775807 AND r.queue = l.queue AND r.priority = l.priority AND r.available_at <= statement_timestamp()
            ORDER BY r.available_at LIMIT 100000) AS due
          WHERE l.queue <> ALL (ARRAY(SELECT q.queue FROM tenure.queues AS q WHERE q.paused))
          LIMIT 100000) AS unordered)
     + (SELECT COALESCE(sum(keys.due), 0)::bigint FROM tenure.ordered_queues() AS o
        CROSS JOIN LATERAL (
          WITH RECURSIVE head AS (
            (SELECT tenure.bucket(r.partition_key) AS bucket, r.partition_key, r.available_at, 1 AS nth FROM tenure.live AS r
             WHERE r.ordered AND r.queue = o.queue
             ORDER BY tenure.bucket(r.partition_key), r.partition_key, r.seq LIMIT 1)
            UNION ALL
            SELECT further.bucket, further.partition_key, further.available_at, head.nth + 1
            FROM head CROSS JOIN LATERAL (
              SELECT tenure.bucket(r.partition_key) AS bucket, r.partition_key, r.available_at FROM tenure.live AS r
              WHERE r.ordered AND r.queue = o.queue
                AND (tenure.bucket(r.partition_key), r.partition_key) > (head.bucket, head.partition_key)
              ORDER BY tenure.bucket(r.partition_key), r.partition_key, r.seq LIMIT 1) AS further
            WHERE head.nth < 10000
          )
          SELECT count(*) AS due FROM head WHERE head.available_at <= statement_timestamp()) AS keys
        WHERE o.queue <> ALL (ARRAY(SELECT q.queue FROM tenure.queues AS q WHERE q.paused))) AS rows
LIMIT 1
