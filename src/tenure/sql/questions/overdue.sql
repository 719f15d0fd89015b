-- overdue: rows whose lease ran out this long ago, and that no sweep has ended yet
-- in: seconds float8
-- out: n, oldest_seconds
-- why: every row is looked at: what no sweep has ended may be what no sweep finds.
SELECT count(*)::int, COALESCE(max(date_part('epoch', clock_timestamp() - GREATEST(i.lease_expires_at, 'epoch'))), 0)
FROM tenure.live AS i
WHERE i.id = ANY (ARRAY(SELECT tenure.held()))
  AND i.lease_expires_at < clock_timestamp() - :seconds * interval '1 second'
LIMIT 1
