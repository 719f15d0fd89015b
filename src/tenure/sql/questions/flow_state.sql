-- flow_state: one instance, by its id or the idempotency key of its name: its row, its steps, what it shows, signals not asked for
-- in: id uuid (or NULL), named text (or NULL)
-- out: id, workflow, version, run, status, attempts, available_at, created_at, claimed_by, last_error, cancel, name, steps, shown, signals
SELECT i.id, i.headers ->> 'tenure-flow', (i.headers ->> 'tenure-version')::int, i.run, i.status, i.attempts, i.available_at, i.created_at, i.claimed_by, i.last_error,
       i.headers ->> 'tenure-cancel', i.idempotency_key,
       (SELECT json_agg(json_build_array(s.path, s.n, s.name, s.state, s.tries, s.recorded_at, s.until, s.result::text, s.error) ORDER BY s.recorded_at, s.path, s.n)::text
        FROM (SELECT s.path, s.n, s.name, CASE WHEN s.state = 'waiting' AND s.name = 'sleep' AND s.until <= clock_timestamp() THEN 'done' ELSE s.state END AS state, s.tries, s.recorded_at, s.until,
                     CASE WHEN s.state = 'failed' THEN NULLIF(s.result - 'asked', '{}') ELSE s.result END AS result, s.error
              FROM tenure.steps AS s WHERE s.row_id = i.id AND s.run = i.run ORDER BY s.row_id, s.run, s.path, s.n LIMIT 1000) AS s),
       (SELECT json_object_agg(v.key, v.value)::text FROM tenure.shown AS v WHERE v.row_id = i.id),
       (SELECT array_agg(g.name ORDER BY g.n) FROM (SELECT g.name, g.n FROM tenure.signals AS g WHERE g.row_id = i.id ORDER BY g.row_id, g.n LIMIT 100) AS g)
FROM (
  SELECT i.id, i.headers, COALESCE((i.headers ->> 'tenure-run')::int, 1) AS run, i.status, i.attempts, i.available_at, i.created_at, i.claimed_by, i.last_error, i.idempotency_key
  FROM tenure.inbox AS i
  WHERE i.id = COALESCE(:id::uuid, (SELECT k.row_id FROM tenure.idempotency AS k WHERE k.key = :named::text))
    AND i.headers ? 'tenure-flow'
  LIMIT 1
) AS i
