-- keep_journal: make partitions ahead, and forget events past the retention of the journal, up to n
-- in: n int
-- out: what, n
SELECT k.what, k.n FROM tenure.keep_journal(:n::int) AS k
