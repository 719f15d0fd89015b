-- skip_stopped: pass over the events at which the shards of a projection have stopped; they are kept as skipped
-- in: projection text
-- out: n int
SELECT s.n FROM tenure.skip_stopped(:projection) AS s (n)
