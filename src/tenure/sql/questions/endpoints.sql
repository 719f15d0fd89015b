-- endpoints: the endpoints of a tenant or of all, or one, without their secrets
-- in: tenant text (NULL: all), id uuid (NULL: all), n int
-- out: id, tenant, url, kinds, state, failures, failing_since, open_until, rotating_until, note, made_at, pending
SELECT e.id, e.tenant, e.url, e.kinds, e.state, e.failures, e.failing_since, CASE WHEN e.state = 'active' THEN e.open_until END,
       CASE WHEN e.before_until > statement_timestamp() THEN e.before_until END, e.note, e.made_at, COALESCE(w.pending, 0)
FROM tenure.endpoints AS e
LEFT JOIN (
  SELECT i.partition_key, count(*) AS pending
  FROM (SELECT r.partition_key FROM tenure.live AS r WHERE r.kind = 'webhook' LIMIT 100000) AS i
  GROUP BY i.partition_key
) AS w ON w.partition_key = 'endpoint:' || e.id
WHERE (:tenant::text IS NULL OR e.tenant = :tenant)
  AND (:id::uuid IS NULL OR e.id = :id)
ORDER BY e.tenant, e.made_at, e.id
LIMIT :n
