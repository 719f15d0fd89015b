-- membership: the last workers that joined a ring, left it in good order, or died, the newest first
-- in: n int
-- out: at, worker, what (joined, left, died), queues (JSON)
SELECT m.at, m.worker, m.what, m.queues::text
FROM tenure.membership AS m
ORDER BY m.id DESC
LIMIT :n
