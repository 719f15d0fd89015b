-- depth: how many rows of each queue are in which state; pending rows not yet due are counted as scheduled
-- in: (none)
-- out: queue, status, n
SELECT i.queue, CASE WHEN i.status = 'pending' AND i.available_at > statement_timestamp() THEN 'scheduled' ELSE i.status END, count(*)
FROM tenure.live AS i
GROUP BY 1, 2
UNION ALL
SELECT d.queue, d.status, count(*) FROM tenure.dead AS d GROUP BY 1, 2
ORDER BY 1, 2
LIMIT 10000
