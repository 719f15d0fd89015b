-- dead_letters: what ended badly, by kind, with the latest error
-- in: n int
-- out: kind, status, n, first_at, last_at, last_error
SELECT d.kind, d.status, count(*), min(d.finished_at), max(d.finished_at),
       (array_agg(d.last_error ORDER BY d.finished_at DESC))[1]
FROM tenure.dead AS d
WHERE d.status IN ('failed', 'dead_letter')
GROUP BY d.kind, d.status
ORDER BY count(*) DESC, d.kind
LIMIT :n
