-- archive: make the coming days' partitions, drop those past retention, forget what belonged to rows long gone
-- in: retention_seconds float8, key_retention_seconds float8, n int
-- out: what, n
SELECT kept.what, kept.n
FROM tenure.keep_archive(:retention_seconds * interval '1 second', :key_retention_seconds * interval '1 second', :n) AS kept
