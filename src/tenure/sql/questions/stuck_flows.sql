-- stuck_flows: flows that somebody should look at, the oldest first, each with the first reason that applies
-- in: workflow text (or NULL), n int
-- out: id, workflow, version, name, reason (differs, no_version, cleaning, cancel, failing, deadline, retrying, waits, signal), step, tries (of a step that is tried again; else, and of one that is failing, the attempts of the flow), seconds (since), said
-- why: what is usual for a wait is read off the newest steps: the time from the step before it. Behind 10,000 flows nobody looks.
WITH flow AS MATERIALIZED (
  SELECT i.id, i.kind, i.headers, i.status, i.last_error, i.idempotency_key, i.available_at, i.attempts, COALESCE((i.headers ->> 'tenure-run')::int, 1) AS run
  FROM tenure.live AS i
  WHERE i.headers ? 'tenure-flow'
    AND (:workflow::text IS NULL OR i.kind = :workflow)
  ORDER BY i.id LIMIT 10000
), usual AS MATERIALIZED (
  SELECT w.name, percentile_disc(0.99) WITHIN GROUP (ORDER BY w.recorded_at - w.before) AS p99
  FROM (SELECT s.name, s.recorded_at, (SELECT max(b.recorded_at) FROM tenure.steps AS b
                                       WHERE b.row_id = s.row_id AND b.run = s.run AND b.path = s.path AND b.n < s.n) AS before
        FROM (SELECT s.row_id, s.run, s.path, s.n, s.name, s.state, s.recorded_at FROM tenure.steps AS s ORDER BY s.row_id DESC LIMIT 20000) AS s
        WHERE s.name LIKE 'wait:%' AND s.state = 'done') AS w
  WHERE w.before IS NOT NULL
  GROUP BY w.name
  HAVING count(*) >= 20
), judged AS (
  SELECT f.id, f.kind, COALESCE((f.headers ->> 'tenure-version')::int, 1) AS version, f.idempotency_key, f.last_error,
         CASE WHEN f.status = 'pending' AND NOT COALESCE(s.parked, false) AND f.last_error LIKE 'definition differs:%' THEN 'differs'
              WHEN f.status = 'pending' AND NOT COALESCE(s.parked, false) AND f.last_error LIKE 'no worker for version %' THEN 'no_version'
              WHEN s.cleaning THEN 'cleaning'
              WHEN f.status = 'pending' AND f.attempts > 0 AND NOT COALESCE(s.parked, false) THEN 'failing'
              WHEN f.headers ? 'tenure-cancel' THEN 'cancel'
              WHEN f.id < tenure.id_at(clock_timestamp() - (f.headers ->> 'tenure-deadline')::float8 * interval '1 second') THEN 'deadline'
              WHEN s.retrying IS NOT NULL THEN 'retrying'
              WHEN s.waiting_since < clock_timestamp() - 3 * u.p99 THEN 'waits'
              WHEN g.name IS NOT NULL THEN 'signal' END AS reason,
         s.retrying, s.tries, f.attempts, s.waits, g.name AS signal, s.latest, s.waiting_since, g.sent_at
  FROM flow AS f
  CROSS JOIN LATERAL (
    SELECT bool_or(s.state IN ('waiting', 'retrying') AND s.until = f.available_at) AS parked, bool_or(s.path = 'undone') AS cleaning,
           (array_agg(s.name ORDER BY s.tries DESC, s.name) FILTER (WHERE s.state = 'retrying'))[1] AS retrying, max(s.tries) FILTER (WHERE s.state = 'retrying') AS tries,
           (array_agg(s.name ORDER BY s.recorded_at, s.name) FILTER (WHERE s.state = 'waiting' AND s.name LIKE 'wait:%'))[1] AS waits, min(s.recorded_at) FILTER (WHERE s.state = 'waiting' AND s.name LIKE 'wait:%') AS waiting_since,
           max(s.recorded_at) AS latest
    FROM tenure.steps AS s WHERE s.row_id = f.id AND s.run = f.run
  ) AS s
  LEFT JOIN usual AS u ON u.name = s.waits
  LEFT JOIN LATERAL (
    SELECT g.name, g.sent_at FROM tenure.signals AS g
    WHERE g.row_id = f.id AND g.sent_at < clock_timestamp() - interval '5 minutes' ORDER BY g.n LIMIT 1
  ) AS g ON true
)
SELECT j.id, j.kind, j.version, j.idempotency_key, j.reason,
       CASE j.reason WHEN 'retrying' THEN j.retrying WHEN 'waits' THEN j.waits WHEN 'signal' THEN j.signal END,
       CASE WHEN j.reason = 'failing' OR j.retrying IS NULL THEN j.attempts ELSE j.tries END,
       date_part('epoch', clock_timestamp() - CASE j.reason WHEN 'signal' THEN j.sent_at WHEN 'waits' THEN j.waiting_since ELSE j.latest END),
       j.last_error
FROM judged AS j
WHERE j.reason IS NOT NULL
ORDER BY j.id
LIMIT :n
