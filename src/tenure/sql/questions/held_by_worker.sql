-- held_by_worker: how many rows each worker holds, and how many slots they take, as far as a quick look finds them
-- in: (none)
-- out: worker, n, slots
-- why: no index knows who holds a row: every claim would have to write to it. Held rows are searched where claims leave them.
--      The rows of an ordered key that one worker holds are a run: they take turns in one slot. Rows claimed ahead count as if they had one.
SELECT r.claimed_by, count(r.id)::int,
       (count(r.id) FILTER (WHERE NOT r.ordered) + count(DISTINCT (r.queue, r.partition_key)) FILTER (WHERE r.ordered))::int
FROM tenure.seen_held() AS seen (id)
JOIN tenure.live AS r ON r.id = seen.id
WHERE r.status = 'processing'
GROUP BY r.claimed_by
ORDER BY r.claimed_by
LIMIT 10000
