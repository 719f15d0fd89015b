-- depth: rows by queue and status; pending rows that are not due yet count as scheduled
-- in: (none)
-- out: queue, status, n
SELECT i.queue, CASE WHEN i.status = 'pending' AND i.available_at > statement_timestamp() THEN 'scheduled' ELSE i.status END, count(*)
FROM tenure.live AS i
GROUP BY 1, 2
UNION ALL
SELECT d.queue, d.status, count(*) FROM tenure.dead AS d GROUP BY 1, 2
ORDER BY 1, 2
LIMIT 10000
