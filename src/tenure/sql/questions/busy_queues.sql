-- busy_queues: each queue with rows, with work in the last minute, or with a setting: how much is due, how much ended, is it paused
-- in: cap int, n int
-- out: queue, due (up to cap), settled (in the last minute, as far as workers have told), paused
WITH named AS (
  SELECT l.queue FROM tenure.lanes() AS l
  UNION
  SELECT o.queue FROM tenure.ordered_queues() AS o
  UNION
  SELECT q.queue FROM tenure.queues AS q WHERE q.paused OR num_nonnulls(q.max_running, q.max_per_key, q.rate_per_second) > 0
  UNION
  SELECT t.queue FROM tenure.tally AS t WHERE t.at > statement_timestamp() - interval '80 seconds' AND t.queue <> ''
)
SELECT named.queue,
       (SELECT count(*)::int FROM (
          SELECT waiting.id FROM tenure.lanes() AS l
          CROSS JOIN LATERAL (
            SELECT r.id FROM tenure.live AS r
            WHERE NOT r.ordered AND r.seq < 9223372036854775807 AND r.queue = l.queue AND r.priority = l.priority
              AND r.available_at <= statement_timestamp() AND r.status = 'pending'
            ORDER BY r.available_at LIMIT :cap) AS waiting
          WHERE l.queue = named.queue
          UNION ALL
          (SELECT r.id FROM tenure.live AS r
           WHERE r.ordered AND r.queue = named.queue AND r.available_at <= statement_timestamp() AND r.status = 'pending'
           LIMIT :cap)
          LIMIT :cap) AS due) AS due,
       (SELECT COALESCE(sum(t.completed + t.retried + t.released + t.failed + t.dead_lettered + t.cancelled), 0)::bigint
        FROM tenure.tally AS t
        WHERE t.queue = named.queue
          AND t.at >= date_bin('10 seconds', statement_timestamp() - interval '66 seconds', 'epoch')
          AND t.at < date_bin('10 seconds', statement_timestamp() - interval '6 seconds', 'epoch')) AS settled,
       COALESCE(q.paused, false)
FROM named
LEFT JOIN tenure.queues AS q ON q.queue = named.queue
ORDER BY due DESC, settled DESC, named.queue
LIMIT :n
