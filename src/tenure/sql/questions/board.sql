-- board: what there is to claim, by queue and priority, and when the next row of each lane is due
-- in: (none)
-- out: queue, priority, ordered, limited, due_seconds (from now; NULL: not known)
-- why: paused queues are not on it. One probe a lane, however long the backlog.
SELECT l.queue, l.priority, false, COALESCE(q.limited, false),
       date_part('epoch', first.available_at - clock_timestamp())
FROM tenure.lanes() AS l
LEFT JOIN tenure.queues AS q ON q.queue = l.queue
LEFT JOIN LATERAL (
  SELECT r.available_at FROM tenure.live AS r
  WHERE NOT r.ordered AND r.queue = l.queue AND r.priority = l.priority AND r.status = 'pending'
  ORDER BY r.available_at LIMIT 1
) AS first ON true
WHERE q.paused IS NOT TRUE
UNION ALL
SELECT o.queue, 0, true, COALESCE(q.limited, false),
       CASE WHEN EXISTS (SELECT FROM tenure.arrivals AS a WHERE a.queue = o.queue) THEN 0
            ELSE date_part('epoch', next.due_at - clock_timestamp()) END
FROM tenure.ordered_queues() AS o
LEFT JOIN tenure.queues AS q ON q.queue = o.queue
LEFT JOIN LATERAL (
  SELECT h.due_at FROM tenure.heads AS h
  WHERE h.queue = o.queue AND h.bucket >= 0 AND h.due_at < 'infinity' AND h.run_to IS NULL
  ORDER BY h.due_at LIMIT 1
) AS next ON true
WHERE q.paused IS NOT TRUE
ORDER BY 2 DESC, 1
LIMIT 10000
