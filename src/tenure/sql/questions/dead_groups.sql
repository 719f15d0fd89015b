-- dead_groups: failed rows and dead letters by status, kind and error, the latest first, each group counted up to cap
-- in: n int, cap int
-- out: status, kind, fingerprint, n, first_at, last_at, last_error, sample uuid
-- why: one probe of dead_groups finds the next group, whatever its size; only the groups that are shown are counted.
WITH RECURSIVE place AS (
  SELECT first.status, first.kind, first.fingerprint, 1 AS nth
  FROM unnest(ARRAY['dead_letter', 'failed']) AS s (status)
  CROSS JOIN LATERAL (
    SELECT d.status, d.kind, d.fingerprint FROM tenure.dead AS d
    WHERE d.status = s.status
    ORDER BY d.status, d.kind, d.fingerprint LIMIT 1
  ) AS first
  UNION ALL
  SELECT further.status, further.kind, further.fingerprint, place.nth + 1
  FROM place CROSS JOIN LATERAL (
    SELECT d.status, d.kind, d.fingerprint FROM tenure.dead AS d
    WHERE d.status = place.status
      AND (d.kind, d.fingerprint) > (place.kind, place.fingerprint)
    ORDER BY d.status, d.kind, d.fingerprint LIMIT 1
  ) AS further
  WHERE place.nth < 2000
), latest AS (
  SELECT place.status, place.kind, place.fingerprint, last.finished_at, last.last_error, last.id
  FROM place CROSS JOIN LATERAL (
    SELECT d.finished_at, d.last_error, d.id FROM tenure.dead AS d
    WHERE d.status = place.status AND d.kind = place.kind AND d.fingerprint = place.fingerprint
    ORDER BY d.finished_at DESC LIMIT 1
  ) AS last
  ORDER BY last.finished_at DESC
  LIMIT :n
)
SELECT latest.status, latest.kind, latest.fingerprint, counted.n, counted.first_at, latest.finished_at, latest.last_error, latest.id
FROM latest CROSS JOIN LATERAL (
  SELECT count(*)::int AS n, min(few.finished_at) AS first_at FROM (
    SELECT d.finished_at FROM tenure.dead AS d
    WHERE d.status = latest.status AND d.kind = latest.kind AND d.fingerprint = latest.fingerprint
    ORDER BY d.finished_at LIMIT :cap
  ) AS few
) AS counted
ORDER BY latest.finished_at DESC
LIMIT :n
