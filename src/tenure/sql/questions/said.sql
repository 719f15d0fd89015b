-- said: what a flow told people, in order
-- in: id uuid, after bigint (the number of the last one that is known), n int
-- out: n, at, chunk
SELECT s.n, s.at, s.chunk FROM tenure.said AS s WHERE s.row_id = :id AND s.n > :after ORDER BY s.n LIMIT :n
