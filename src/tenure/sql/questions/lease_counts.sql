-- lease_counts: what happened to leases in the last seconds
-- in: seconds int
-- out: acquired, renewed, expired, reclaimed, lost, stale_writes_blocked
SELECT COALESCE(sum(t.acquired), 0), COALESCE(sum(t.renewed), 0), COALESCE(sum(t.expired), 0),
       COALESCE(sum(t.reclaimed), 0), COALESCE(sum(t.lost), 0), COALESCE(sum(t.stale_writes_blocked), 0)
FROM tenure.tally AS t
WHERE t.at > statement_timestamp() - :seconds * interval '1 second'
LIMIT 1
