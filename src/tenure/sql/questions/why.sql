-- why: the facts behind one sentence: what a row is waiting for
-- in: id uuid
-- out: status, kind, queue, partition_key, bucket int, attempts, max_attempts, worker, seconds_left, seconds_to_wait, age_seconds, last_error, cancel_asked
-- out: blocks (it keeps its key waiting for an operator), worker_status, gone boolean (its holder's session), seen_seconds (since its holder's heartbeat)
-- out: head uuid (the row it stands behind), head_status, head_worker, head_attempts, head_seconds_to_wait, head_later boolean (its number is higher)
-- out: paused, running int, max_running int, running_of_key int, max_per_key int, tokens float8, rate_per_second float8
-- out: urgent int (due rows of a higher priority), before int (rows that were due before it, both up to 1000), arrived boolean (its key has changed since the last claim)
-- out: locked_by int (a process of the server), locked_name (its application_name), locked_in text (a prepared transaction), locked_seconds
-- out: locked_queue boolean (not the row: what is set for its queue)
-- out: sweep_every_seconds, swept_seconds (ago), fleet text (JSON: the workers that are not dead)
-- out: batch bigint (the one it waits for), batch_open int (rows of it that have not ended), batch_size int
-- out: step text (what a flow waits for, the next to end), step_tried boolean (it is tried again then), step_tries int, step_seconds (since), step_until timestamptz
-- out: flow text (what an ended flow has left: undone, undoing, or begun), failed text (the last step that failed and that redrive tries again), failed_of text (the call or map whose rows had failed, if it is that)
WITH asked AS (
  SELECT i.status, i.kind, i.queue, i.partition_key, i.partition_bucket, i.attempts, i.max_attempts, i.claimed_by, i.finished_by,
         i.lease_expires_at, i.available_at, i.created_at, i.last_error, i.cancel_asked, i.ordered, i.priority, i.id,
         COALESCE((i.headers ->> 'tenure-run')::int, 1) AS run, l.counted, l.seq, l.claim_id, l.xmax AS locker, d.blocks, i.headers ? 'tenure-flow' AS flow, i.ordered AND i.status = 'pending' AS in_line,
         NOT i.ordered AND i.status = 'pending' AS in_lane, date_part('epoch', clock_timestamp()) AS clock
  FROM tenure.inbox AS i
  LEFT JOIN tenure.live AS l ON l.id = i.id
  LEFT JOIN tenure.dead AS d ON d.id = i.id
  WHERE i.id = :id
  LIMIT 1
), here AS MATERIALIZED (
  SELECT ARRAY(SELECT tenure.presences()) AS presences
), taken AS MATERIALIZED (
  -- The slots that rows take now. A heartbeat tells what they were up to ten seconds ago. A run of an ordered key is one slot.
  SELECT r.claimed_by, count(DISTINCT (r.claim_id, CASE WHEN r.ordered THEN r.partition_key ELSE r.id::text END))::int AS slots
  FROM asked AS i
  CROSS JOIN LATERAL tenure.seen_held(CASE WHEN i.status = 'pending' THEN 10001 ELSE 0 END) AS seen (id)
  JOIN tenure.live AS r ON r.id = seen.id
  WHERE r.status = 'processing'
  GROUP BY r.claimed_by
)
SELECT i.status, i.kind, i.queue, i.partition_key, i.partition_bucket, i.attempts, i.max_attempts, COALESCE(i.claimed_by, i.finished_by) AS worker,
       date_part('epoch', i.lease_expires_at) - i.clock AS seconds_left, date_part('epoch', i.available_at) - i.clock AS seconds_to_wait,
       i.clock - date_part('epoch', i.created_at) AS age_seconds, i.last_error, i.cancel_asked, COALESCE(i.blocks, false) AS blocks, w.status AS worker_status,
       COALESCE(w.gone_at IS NOT NULL OR w.presence IS NOT NULL AND w.presence <> ALL (here.presences), false) AS gone,
       i.clock - date_part('epoch', w.last_seen_at) AS seen_seconds,
       head.id AS head, head.status AS head_status, head.claimed_by AS head_worker, head.attempts AS head_attempts,
       date_part('epoch', head.available_at) - i.clock AS head_seconds_to_wait, COALESCE(head.seq > i.seq, false) AS head_later,
       COALESCE(q.paused, false) AS paused,
       (SELECT count(*)::int FROM tenure.permits AS p WHERE p.queue = i.queue AND p.partition_key = '') AS running, q.max_running,
       (SELECT count(*)::int FROM tenure.permits AS p WHERE p.queue = i.queue AND p.partition_key = i.partition_key) AS running_of_key,
       q.max_per_key,
       tenure.refilled(q.tokens, q.rate_per_second, q.burst, clock_timestamp() - q.refilled_at) AS tokens, q.rate_per_second,
       ahead.urgent, ahead.before, ahead.arrived,
       lock.pid AS locked_by, lock.name AS locked_name, lock.gid AS locked_in, lock.seconds AS locked_seconds, COALESCE(lock.queue, false) AS locked_queue,
       sweep.every_seconds AS sweep_every_seconds, NULLIF(i.clock - date_part('epoch', sweep.ran_at), 'infinity') AS swept_seconds,
       fleet.members AS fleet, batch.id AS batch, batch.open AS batch_open, batch.size AS batch_size,
       step.name AS step, step.tried AS step_tried, step.tries AS step_tries, i.clock - date_part('epoch', step.recorded_at) AS step_seconds, step.until AS step_until, ended.flow, ended.failed, ended.failed_of
FROM asked AS i
CROSS JOIN here
LEFT JOIN tenure.workers AS w ON w.id = i.claimed_by
LEFT JOIN tenure.queues AS q ON q.queue = i.queue
LEFT JOIN tenure.chores AS sweep ON sweep.name = 'leases'
LEFT JOIN LATERAL (
  -- The row this one stands behind: one that blocks its key, one that has begun, or an earlier one; in a run, the one at work.
  SELECT COALESCE(
    (SELECT d.id FROM tenure.dead AS d
     WHERE i.in_line AND d.queue = i.queue AND d.partition_key = i.partition_key AND d.blocks ORDER BY d.seq LIMIT 1),
    (SELECT r.id FROM tenure.heads AS h
     JOIN tenure.live AS r ON r.ordered AND r.queue = h.queue AND tenure.bucket(r.partition_key) = h.bucket
       AND r.partition_key = h.partition_key AND r.seq BETWEEN LEAST(h.run_from, h.begun_seq) AND GREATEST(h.run_to, h.begun_to)
     WHERE i.in_line AND h.queue = i.queue AND h.partition_key = i.partition_key
       AND (r.status = 'processing' OR r.attempts > 0)
     ORDER BY r.seq LIMIT 1),
    (SELECT r.id FROM tenure.live AS r
     WHERE i.ordered AND r.ordered AND r.queue = i.queue AND tenure.bucket(r.partition_key) = i.partition_bucket
       AND r.partition_key = i.partition_key AND (i.in_line OR r.claim_id = i.claim_id)
     ORDER BY r.seq LIMIT 1)) AS id
  LIMIT 1
) AS first ON true
LEFT JOIN LATERAL (
  SELECT r.id, r.status, r.claimed_by, r.attempts, r.available_at, r.seq FROM tenure.live AS r WHERE r.id = first.id AND r.id <> i.id
  UNION ALL
  SELECT d.id, d.status, NULL, d.attempts, d.available_at, d.seq FROM tenure.dead AS d WHERE d.id = first.id AND d.id <> i.id
  LIMIT 1
) AS head ON true
CROSS JOIN LATERAL (
  SELECT (SELECT count(*)::int FROM (
            SELECT FROM tenure.priorities(i.queue) AS lane (priority) CROSS JOIN LATERAL (
              SELECT FROM tenure.live AS r
              WHERE NOT r.ordered AND r.seq < 9223372036854775807 AND r.queue = i.queue AND r.priority = lane.priority
                AND r.available_at <= statement_timestamp() AND r.status = 'pending'
              LIMIT 1000) AS due
            WHERE i.in_lane AND lane.priority > i.priority LIMIT 1000) AS few) AS urgent,
         (SELECT count(*)::int FROM (
            (SELECT FROM tenure.live AS r
             WHERE i.in_lane AND NOT r.ordered AND r.seq < 9223372036854775807 AND r.queue = i.queue AND r.priority = i.priority
               AND r.available_at < i.available_at AND r.available_at <= statement_timestamp() AND r.status = 'pending'
             LIMIT 1000)
            UNION ALL
            (SELECT FROM tenure.heads AS h
             WHERE i.in_line AND h.queue = i.queue AND h.bucket >= 0 AND h.due_at < i.available_at AND h.due_at <= statement_timestamp()
               AND h.run_to IS NULL AND h.partition_key <> i.partition_key
             LIMIT 1000)) AS few) AS before,
         i.in_line AND EXISTS (
           SELECT FROM (SELECT a.partition_key FROM tenure.arrivals AS a WHERE a.queue = i.queue ORDER BY a.id LIMIT 10000) AS a
           WHERE a.partition_key = i.partition_key) AS arrived
) AS ahead
LEFT JOIN LATERAL (
  -- Who changes or locks a row stands in its xmax, and holds a lock on that transaction until it ends.
  SELECT k.pid, a.application_name AS name, p.gid, i.clock - date_part('epoch', COALESCE(a.xact_start, p.prepared)) AS seconds, k.transactionid <> i.locker AS queue
  FROM pg_catalog.pg_locks AS k
  LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = k.pid
  LEFT JOIN pg_catalog.pg_prepared_xacts AS p ON p.transaction = k.transactionid
  WHERE (i.locker <> '0'::xid OR i.status = 'pending' AND q.limited AND q.xmax <> '0'::xid)
    AND k.locktype = 'transactionid' AND k.mode = 'ExclusiveLock' AND k.granted
    AND (k.transactionid = i.locker OR i.status = 'pending' AND q.limited AND k.transactionid = q.xmax)
  ORDER BY k.transactionid <> i.locker
  LIMIT 1
) AS lock ON true
CROSS JOIN LATERAL (
  -- A worker that does not say which queues or kinds it has is taken to have all.
  SELECT COALESCE(jsonb_agg(jsonb_build_object(
           'id', f.id, 'status', f.status, 'queues', f.metadata -> 'queues', 'slots', f.metadata -> 'slots', 'slots_used', f.metadata -> 'slots_used',
           'slots_taken', COALESCE(taken.slots, 0), 'seen_seconds', f.seen_seconds,
           'serves', COALESCE(f.metadata -> 'queues' ? i.queue, true), 'has_kind', COALESCE(f.metadata -> 'kinds' ? i.kind, true),
           'here', f.gone_at IS NULL AND CASE WHEN f.presence IS NULL THEN f.seen ELSE f.presence = ANY (here.presences) END, 'on_ring', f.status = 'alive' AND f.seen)
         ORDER BY f.id), '[]')::text AS members
  FROM (SELECT m.id, m.status, m.metadata, m.gone_at, m.presence, m.last_seen_at > clock_timestamp() - interval '30 seconds' AS seen,
               i.clock - date_part('epoch', m.last_seen_at) AS seen_seconds
        FROM tenure.workers AS m WHERE m.status <> 'dead' ORDER BY m.id LIMIT 1000) AS f
  LEFT JOIN taken ON taken.claimed_by = f.id
) AS fleet
LEFT JOIN LATERAL (
  -- It follows this batch, or its own batch does.
  SELECT g.id, g.size, (SELECT sum(s.open)::int FROM tenure.group_slots AS s WHERE s.group_id = g.id) AS open FROM tenure.groups AS g
  WHERE i.status = 'pending' AND g.ended_at IS NULL AND g.id IN (
    SELECT t.id FROM tenure.groups AS t WHERE t.then_row = i.id
    UNION ALL SELECT t.id FROM tenure.groups AS t WHERE t.then_group = i.counted >> 6)
  ORDER BY g.id LIMIT 1
) AS batch ON true
LEFT JOIN LATERAL (
  SELECT s.name, s.state = 'retrying' AS tried, s.tries, s.recorded_at, s.until FROM tenure.steps AS s
  WHERE i.status = 'pending' AND s.row_id = i.id AND s.run = i.run AND s.state IN ('waiting', 'retrying') AND s.until = i.available_at
  ORDER BY s.until, s.path, s.n LIMIT 1
) AS step ON true
LEFT JOIN LATERAL (
  SELECT CASE WHEN bool_or(s.path = 'undone' AND s.state = 'done') THEN 'undone' WHEN bool_or(s.path = 'undone') THEN 'undoing' ELSE 'begun' END AS flow,
         (array_agg(s.name ORDER BY s.recorded_at DESC) FILTER (WHERE s.state = 'failed' AND NOT tenure.went_on(i.id, i.run, s.path, s.result -> 'asked')))[1] AS failed,
         (array_agg(c.name ORDER BY s.recorded_at DESC) FILTER (WHERE s.state = 'failed' AND NOT tenure.went_on(i.id, i.run, s.path, s.result -> 'asked')))[1] AS failed_of
  FROM tenure.steps AS s
  LEFT JOIN tenure.steps AS c ON s.name = 'ends' AND c.row_id = s.row_id AND c.run = s.run AND c.path = s.path AND c.n = s.n - 2 AND c.name ~ '^(call|map):'
  WHERE i.flow AND i.status IN ('failed', 'dead_letter') AND s.row_id = i.id AND s.run = i.run
  HAVING count(*) > 0
) AS ended ON true
