-- held_by_worker: how many rows each worker holds, as far as a quick look finds them
-- in: (none)
-- out: worker, n
-- why: no index knows who holds a row: every claim would have to write to it. Held rows are searched where claims leave them.
SELECT r.claimed_by, count(r.id)::int
FROM tenure.seen_held() AS seen (id)
JOIN tenure.live AS r ON r.id = seen.id
WHERE r.status = 'processing'
GROUP BY r.claimed_by
ORDER BY r.claimed_by
LIMIT 10000
