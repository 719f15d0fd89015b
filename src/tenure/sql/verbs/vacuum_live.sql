-- vacuum_live: vacuum the hot table now, without waiting for autovacuum
-- in: (none)
-- out: (none)
VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON, TRUNCATE OFF) tenure.live
