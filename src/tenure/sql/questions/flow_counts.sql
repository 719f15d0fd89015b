-- flow_counts: live flows by workflow, version and state, the oldest signal that nobody has asked for, and the batches that are open
-- in: n int
-- out: workflow (NULL: the one line of the other numbers), version, state (running, waiting, pending, differs, no_version), flows
-- out: oldest_signal_seconds, open_batches, oldest_batch_seconds
SELECT f.kind, f.version, f.state, count(*) AS flows, NULL::float8 AS oldest_signal_seconds, NULL::bigint AS open_batches, NULL::float8 AS oldest_batch_seconds
FROM (
  SELECT i.kind, COALESCE((i.headers ->> 'tenure-version')::int, 1) AS version,
         CASE WHEN i.status = 'processing' THEN 'running'
              WHEN i.last_error LIKE 'definition differs:%' AND NOT EXISTS (
                SELECT FROM tenure.steps AS s WHERE s.row_id = i.id AND s.state IN ('waiting', 'retrying') AND s.until = i.available_at) THEN 'differs'
              WHEN i.last_error LIKE 'no worker for version %' AND NOT EXISTS (
                SELECT FROM tenure.steps AS s WHERE s.row_id = i.id AND s.state IN ('waiting', 'retrying') AND s.until = i.available_at) THEN 'no_version'
              WHEN i.available_at > statement_timestamp() THEN 'waiting'
              ELSE 'pending' END AS state
  FROM tenure.live AS i
  WHERE i.headers ? 'tenure-flow'
) AS f
GROUP BY f.kind, f.version, f.state
UNION ALL
SELECT NULL, NULL, NULL, NULL,
       (SELECT date_part('epoch', clock_timestamp() - min(g.sent_at)) FROM tenure.signals AS g),
       (SELECT count(*) FROM tenure.groups AS g WHERE g.ended_at IS NULL),
       (SELECT date_part('epoch', clock_timestamp() - min(g.opened_at)) FROM tenure.groups AS g WHERE g.ended_at IS NULL)
ORDER BY flows DESC NULLS FIRST
LIMIT :n
