-- flows: instances that live or have ended badly, the newest first, each with its last step
-- in: workflow text (or NULL), state text (or NULL), n int
-- out: id, workflow, version, run, status, name, created_at, available_at, last_error, steps, current, until
SELECT f.id, f.workflow, f.version, f.run, f.state, f.idempotency_key, f.created_at, f.available_at, f.last_error, f.steps, f.current, f.until
FROM (
  SELECT i.id, i.kind AS workflow, COALESCE((i.headers ->> 'tenure-version')::int, 1) AS version, i.run,
         CASE WHEN i.status = 'pending' AND s.waits THEN 'waiting' ELSE i.status END AS state, i.idempotency_key, i.created_at, i.available_at, i.last_error,
         s.steps, s.current, s.until
  FROM (
    SELECT r.id, r.kind, r.headers, COALESCE((r.headers ->> 'tenure-run')::int, 1) AS run, r.status, r.idempotency_key, r.created_at, r.available_at, r.last_error
    FROM (SELECT l.id, l.kind, l.headers, l.status, l.idempotency_key, l.created_at, l.available_at, l.last_error FROM tenure.live AS l
          UNION ALL
          SELECT d.id, d.kind, d.headers, d.status, d.idempotency_key, d.created_at, d.available_at, d.last_error FROM tenure.dead AS d) AS r
    WHERE r.headers ? 'tenure-flow'
      AND (:workflow::text IS NULL OR r.kind = :workflow)
    ORDER BY r.id DESC
    LIMIT 10000
  ) AS i
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS steps, (array_agg(s.name ORDER BY s.recorded_at DESC, s.n DESC))[1] AS current, min(s.until) FILTER (WHERE s.state IN ('waiting', 'retrying') AND s.until > statement_timestamp() AND i.status = 'pending') AS until,
           COALESCE(bool_or(s.state IN ('waiting', 'retrying') AND s.until > statement_timestamp()), false) AS waits
    FROM tenure.steps AS s WHERE s.row_id = i.id AND s.run = i.run
  ) AS s
) AS f
WHERE :state::text IS NULL OR f.state = :state
ORDER BY f.id DESC
LIMIT :n
