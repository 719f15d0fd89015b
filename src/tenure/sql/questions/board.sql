-- board: what there is to claim in these queues, by priority, and when the next row of each lane is due
-- in: queues text[], known_queues text[], known_priorities smallint[], floors float8[] (lanes known before, each once, and their floors in epoch seconds)
-- in: known_ordered text[] (queues known to have ordered keys), from_arrival bigint, from_due float8 (epoch seconds): floors of their arrivals and heads
-- out: queue, priority, ordered, limited, due_seconds (from now; NULL: not known), at_seconds (the clock when it was read)
-- out: first_due (epoch seconds), first_arrival, last_arrival (the highest number given so far): where ordered keys begin now
-- in: begun boolean (tell next_begun: it costs a look at all locks)
-- out: oldest_open, next_begun bigint (every transaction before the one is over, none from the other on had begun; NULL: not asked for)
-- why: paused queues are not on it. One probe a lane, however long the backlog, and no look at the queues of others. A lane that
-- is known is asked from its floor on, which passes index entries of rows already gone; others are found by a loose walk.
SELECT lane.queue, lane.priority, false, COALESCE(s.limited, false),
       date_part('epoch', lane.first) - date_part('epoch', statement_timestamp()), date_part('epoch', statement_timestamp()),
       NULL::float8, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint
FROM (
  WITH RECURSIVE asked AS (
    SELECT q.queue FROM unnest(:queues::text[]) AS q (queue)
    WHERE NOT EXISTS (SELECT FROM tenure.queues AS s WHERE s.queue = q.queue AND s.paused)
  ), known AS (
    SELECT k.queue, k.priority::int AS priority, k.floor
    FROM unnest(:known_queues::text[], :known_priorities::smallint[], :floors::float8[]) AS k (queue, priority, floor)
    WHERE k.queue IN (SELECT asked.queue FROM asked)
  ), walk AS (  -- from the end of the scale, and from each known lane, up to the next one that is known
    SELECT e.queue, e.priority, COALESCE(lead(e.priority) OVER (PARTITION BY e.queue ORDER BY e.priority), 32768) AS below,
           NULL::text AS status, NULL::timestamptz AS available_at
    FROM (SELECT asked.queue, -32769 AS priority FROM asked UNION ALL SELECT k.queue, k.priority FROM known AS k) AS e
    UNION ALL
    SELECT walk.queue, next.priority, walk.below, next.status, next.available_at FROM walk
    CROSS JOIN LATERAL (
      SELECT r.priority::int AS priority, r.status, r.available_at FROM tenure.live AS r
      WHERE NOT r.ordered AND r.seq < 9223372036854775807 AND r.queue = walk.queue
        AND r.priority > walk.priority AND r.priority < walk.below
      ORDER BY r.priority, r.available_at LIMIT 1
    ) AS next
  )
  SELECT lane.queue, lane.priority, CASE WHEN lane.status = 'pending' THEN lane.available_at ELSE (  -- implied: only spares the look
    SELECT r.available_at FROM tenure.live AS r
    WHERE NOT r.ordered AND r.seq < 9223372036854775807 AND r.queue = lane.queue AND r.priority = lane.priority
      AND r.available_at >= tenure.since(lane.floor) AND r.status = 'pending'
    ORDER BY r.available_at LIMIT 1) END AS first
  FROM (
    SELECT walk.queue, walk.priority, walk.status, walk.available_at, '-infinity'::float8 AS floor FROM walk WHERE walk.status IS NOT NULL
    UNION ALL
    SELECT known.queue, known.priority, NULL, NULL, known.floor FROM known
  ) AS lane
) AS lane
LEFT JOIN tenure.queues AS s ON s.queue = lane.queue
UNION ALL
SELECT q.queue, 0, true, COALESCE(s.limited, false),
       CASE WHEN arrived.id IS NOT NULL THEN 0
            ELSE date_part('epoch', next.due_at) - date_part('epoch', statement_timestamp()) END, date_part('epoch', statement_timestamp()),
       date_part('epoch', next.due_at), arrived.id, (SELECT n.last_value FROM tenure.arrivals_id_seq AS n),
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint, (SELECT tenure.next_transaction() WHERE :begun)
FROM unnest(:queues::text[]) AS q (queue)
LEFT JOIN tenure.queues AS s ON s.queue = q.queue
LEFT JOIN LATERAL (
  SELECT a.id FROM tenure.arrivals AS a WHERE a.queue = q.queue AND a.id >= :from_arrival ORDER BY a.id LIMIT 1
) AS arrived ON true
LEFT JOIN LATERAL (
  SELECT h.due_at FROM tenure.heads AS h
  WHERE h.queue = q.queue AND h.bucket >= 0 AND h.due_at >= tenure.since(:from_due) AND h.due_at < 'infinity' AND h.run_to IS NULL
  ORDER BY h.due_at LIMIT 1
) AS next ON true
WHERE s.paused IS NOT TRUE
  AND (q.queue = ANY (:known_ordered::text[]) OR arrived.id IS NOT NULL OR next.due_at IS NOT NULL
       OR EXISTS (SELECT FROM tenure.heads AS h WHERE h.queue = q.queue))
ORDER BY 2 DESC, 1
