-- queue_depths: rows by queue and status without completed rows, each counted up to a cap
-- in: cap int
-- out: queue, status (pending ones not yet due are scheduled), n, more
-- why: what is due or not yet due is counted in the index alone, and what is held is taken off; ordered rows have to be looked at,
--      so fewer of them are. With many queues each is counted less far: the time does not grow with them.
WITH RECURSIVE most AS (
  SELECT GREATEST(100, LEAST(:cap::int, 100000 / GREATEST(1, (SELECT count(l.queue) FROM tenure.lanes() AS l))))::int AS n
), held AS (
  SELECT r.queue, r.ordered, count(r.id)::int AS n
  FROM tenure.seen_held() AS seen (id)
  JOIN tenure.live AS r ON r.id = seen.id
  WHERE r.status = 'processing'
  GROUP BY r.queue, r.ordered
), due AS (
  SELECT l.queue, sum(met.n)::int AS n, bool_or(met.n > most.n) AS more
  FROM most CROSS JOIN tenure.lanes() AS l CROSS JOIN LATERAL (
    SELECT count(one.one)::int AS n
    FROM (SELECT 1 AS one FROM tenure.live AS r
          WHERE NOT r.ordered AND r.seq < 9223372036854775807 AND r.queue = l.queue AND r.priority = l.priority AND r.available_at <= statement_timestamp()
          LIMIT most.n + 1) AS one
  ) AS met
  GROUP BY l.queue
), later AS (
  SELECT l.queue, sum(met.n)::int AS n, bool_or(met.n > most.n) AS more
  FROM most CROSS JOIN tenure.lanes() AS l CROSS JOIN LATERAL (
    SELECT count(one.one)::int AS n
    FROM (SELECT 1 AS one FROM tenure.live AS r
          WHERE NOT r.ordered AND r.seq < 9223372036854775807 AND r.queue = l.queue AND r.priority = l.priority AND r.available_at > statement_timestamp()
          LIMIT most.n + 1) AS one
  ) AS met
  GROUP BY l.queue
), in_order AS (
  SELECT o.queue, met.later, met.n, sum(met.n) OVER (PARTITION BY o.queue) > most.n / 10 AS more
  FROM most CROSS JOIN tenure.ordered_queues() AS o CROSS JOIN LATERAL (
    SELECT one.available_at > statement_timestamp() AS later, count(one.id)::int AS n
    FROM (SELECT r.id, r.available_at FROM tenure.live AS r
          WHERE r.ordered AND r.queue = o.queue AND r.status = 'pending'
          LIMIT most.n / 10 + 1) AS one
    GROUP BY 1
  ) AS met
), ended AS (
  (SELECT d.queue, d.status FROM tenure.dead AS d ORDER BY d.queue, d.status LIMIT 1)
  UNION ALL
  SELECT further.queue, further.status
  FROM ended CROSS JOIN LATERAL (
    SELECT d.queue, d.status FROM tenure.dead AS d
    WHERE (d.queue, d.status) > (ended.queue, ended.status)
    ORDER BY d.queue, d.status LIMIT 1) AS further
), every_state AS (
  SELECT d.queue, 'pending' AS status, d.n - COALESCE(h.n, 0) AS n, d.more
  FROM due AS d LEFT JOIN held AS h ON h.queue = d.queue AND NOT h.ordered
  UNION ALL
  SELECT queue, 'scheduled', n, more FROM later
  UNION ALL
  SELECT queue, CASE WHEN later THEN 'scheduled' ELSE 'pending' END, n, more FROM in_order
  UNION ALL
  SELECT queue, 'processing', n, false FROM held
  UNION ALL
  SELECT ended.queue, ended.status, met.n, met.n > most.n
  FROM most CROSS JOIN ended CROSS JOIN LATERAL (
    SELECT count(one.one)::int AS n
    FROM (SELECT 1 AS one FROM tenure.dead AS d
          WHERE d.queue = ended.queue AND d.status = ended.status
          LIMIT most.n + 1) AS one
  ) AS met
)
SELECT e.queue, e.status, GREATEST(0, LEAST(sum(e.n), most.n))::int, bool_or(e.more) OR sum(e.n) > most.n
FROM every_state AS e CROSS JOIN most
GROUP BY e.queue, e.status, most.n
ORDER BY e.queue, e.status
LIMIT 10000
