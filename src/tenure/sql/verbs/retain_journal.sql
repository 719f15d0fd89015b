-- retain_journal: keep events for so many seconds, or for ever
-- in: seconds float8
-- out: retention_seconds
UPDATE tenure.journal_kept AS k SET retention_seconds = :seconds::float8
RETURNING k.retention_seconds
