-- endpoint_calls: how the last calls of some endpoints went, up to 100 of each
-- in: ids uuid[]
-- out: endpoint_id, calls, ok, p50_ms, p99_ms, last_at, answers (up to ten statuses, the newest first; NULL: no answer)
SELECT e.id, c.calls, c.ok, c.p50_ms, c.p99_ms, c.last_at, c.answers[1:10]
FROM unnest(:ids::uuid[]) AS e (id)
CROSS JOIN LATERAL (
  SELECT count(*) AS calls, count(*) FILTER (WHERE l.status BETWEEN 200 AND 299) AS ok, max(l.at) AS last_at,
         percentile_disc(0.5) WITHIN GROUP (ORDER BY l.ms) AS p50_ms, percentile_disc(0.99) WITHIN GROUP (ORDER BY l.ms) AS p99_ms,
         array_agg(l.status ORDER BY l.at DESC) AS answers
  FROM (SELECT d.status, d.ms, d.at FROM tenure.deliveries AS d WHERE d.endpoint_id = e.id ORDER BY d.at DESC LIMIT 100) AS l
) AS c
WHERE c.calls > 0
LIMIT 10000
