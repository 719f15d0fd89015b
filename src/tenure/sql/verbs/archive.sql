-- archive: make the coming days' partitions, drop those past retention, forget what belonged to rows long gone, and old history
-- in: retention_seconds float8, key_retention_seconds float8, n int
-- out: what, n
-- why: the archive last: from where it drops a day to the end of the transaction, completions wait.
SELECT kept.what, kept.n
FROM tenure.keep_history(:retention_seconds * interval '1 second', :n) AS kept
UNION ALL
SELECT kept.what, kept.n
FROM tenure.keep_results(:retention_seconds * interval '1 second', :n) AS kept
UNION ALL
SELECT kept.what, kept.n
FROM tenure.keep_flows(:retention_seconds * interval '1 second', :n) AS kept
UNION ALL
SELECT kept.what, kept.n
FROM tenure.keep_archive(:retention_seconds * interval '1 second', :key_retention_seconds * interval '1 second', :n) AS kept
