-- why: the facts behind one sentence: what a row is waiting for
-- in: id uuid
-- out: status, kind, queue, partition_key, attempts, max_attempts, worker, seconds_left, seconds_to_wait, last_error, worker_status, cancel_asked, head uuid, head_status, paused, running int, max_running int, running_of_key int, max_per_key int, tokens float8, rate_per_second float8, workers int, serving int (of its queue), able int (of its kind as well), gone boolean (its holder's session)
SELECT i.status, i.kind, i.queue, i.partition_key, i.attempts, i.max_attempts, COALESCE(i.claimed_by, i.finished_by) AS worker,
       extract(epoch FROM i.lease_expires_at - clock_timestamp())::float8 AS seconds_left,
       extract(epoch FROM i.available_at - clock_timestamp())::float8 AS seconds_to_wait,
       i.last_error, w.status AS worker_status, i.cancel_asked, head.id AS head, head.status AS head_status,
       COALESCE(q.paused, false) AS paused,
       (SELECT count(*)::int FROM tenure.permits AS p WHERE p.queue = i.queue AND p.partition_key = '') AS running, q.max_running,
       (SELECT count(*)::int FROM tenure.permits AS p WHERE p.queue = i.queue AND p.partition_key = i.partition_key) AS running_of_key,
       q.max_per_key,
       tenure.refilled(q.tokens, q.rate_per_second, q.burst, clock_timestamp() - q.refilled_at) AS tokens, q.rate_per_second,
       fleet.workers, fleet.serving, fleet.able,
       w.gone_at IS NOT NULL OR (w.presence IS NOT NULL AND w.presence <> ALL (ARRAY(SELECT tenure.presences()))) AS gone
FROM tenure.inbox AS i
LEFT JOIN tenure.workers AS w ON w.id = i.claimed_by
LEFT JOIN tenure.queues AS q ON q.queue = i.queue
LEFT JOIN LATERAL (
  -- The row this one stands behind: the holder of its key, or an earlier row of it.
  SELECT COALESCE(
    (SELECT d.id FROM tenure.dead AS d WHERE d.queue = i.queue AND d.partition_key = i.partition_key AND d.blocks ORDER BY d.seq LIMIT 1),
    (SELECT r.id FROM tenure.heads AS h
     JOIN tenure.live AS r ON r.ordered AND r.queue = h.queue AND tenure.bucket(r.partition_key) = h.bucket
       AND r.partition_key = h.partition_key AND r.seq BETWEEN COALESCE(h.run_from, h.begun_seq) AND COALESCE(h.run_to, h.begun_seq)
     WHERE h.queue = i.queue AND h.partition_key = i.partition_key
       AND (r.status = 'processing' OR r.attempts > 0)
     ORDER BY r.seq LIMIT 1),
    (SELECT r.id FROM tenure.live AS r
     WHERE r.ordered AND r.queue = i.queue AND tenure.bucket(r.partition_key) = i.partition_bucket AND r.partition_key = i.partition_key
     ORDER BY r.seq LIMIT 1)) AS id
  WHERE i.ordered AND i.status = 'pending'
  LIMIT 1
) AS first ON true
LEFT JOIN LATERAL (
  SELECT ahead.id, ahead.status FROM tenure.inbox AS ahead WHERE ahead.id = first.id AND ahead.id <> i.id LIMIT 1
) AS head ON true
CROSS JOIN LATERAL (
  -- A worker that does not say which queues or kinds it has is taken to have all.
  SELECT count(*)::int AS workers,
         (count(*) FILTER (WHERE COALESCE(alive.metadata -> 'queues' ? i.queue, true)))::int AS serving,
         (count(*) FILTER (WHERE COALESCE(alive.metadata -> 'queues' ? i.queue, true)
                             AND COALESCE(alive.metadata -> 'kinds' ? i.kind, true)))::int AS able
  FROM tenure.workers AS alive
  WHERE alive.status = 'alive' AND alive.gone_at IS NULL
) AS fleet
WHERE i.id = :id
LIMIT 1
