-- waiting_ranges: the ranges of keys that have come here and are not at home, and those that rows wait for
-- in: (none)
-- out: range, placed (by which move it is here; NULL: it has left again), rows (that wait), moment
SELECT COALESCE(h.range, w.range), h.placed, COALESCE(w.n, 0), statement_timestamp()
FROM tenure_door.ranges_here() AS h
FULL JOIN (
  SELECT tenure_door.range_of(k.partition_key) AS range, count(*)::int AS n FROM tenure.waiting AS k GROUP BY 1) AS w ON w.range = h.range
WHERE w.range IS NOT NULL OR NOT EXISTS (SELECT FROM tenure.ranges AS r WHERE r.range = h.range AND r.placed = h.placed)
ORDER BY 1
