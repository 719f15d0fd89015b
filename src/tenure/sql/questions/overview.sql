-- overview: the inbox in a few numbers: rows by state, the longest wait, the workers
-- in: cap int
-- out: states text[], counts int[], more boolean[], oldest_runnable_seconds, alive, draining, dead
-- why: of ordered keys the first 256 of each queue are asked how long they wait; to ask all would take as long as there are keys.
SELECT counted.states, counted.counts, counted.more,
       -- From 1970 on: by hand a row may have been due before all times.
       (SELECT date_part('epoch', clock_timestamp() - GREATEST(oldest.since, 'epoch')) FROM (SELECT LEAST(
         (SELECT min(head.available_at) FROM tenure.lanes() AS lane CROSS JOIN LATERAL (
            SELECT r.available_at FROM tenure.live AS r
            WHERE NOT r.ordered AND r.seq < 9223372036854775807 AND r.queue = lane.queue AND r.priority = lane.priority
              AND r.available_at <= statement_timestamp() AND r.status = 'pending'
            ORDER BY r.available_at LIMIT 1) AS head),
         (SELECT min(r.available_at) FROM tenure.ordered_queues() AS o
          CROSS JOIN LATERAL tenure.free_heads(o.queue, 0, 256) AS head (id)
          JOIN tenure.live AS r ON r.id = head.id)) AS since) AS oldest WHERE oldest.since IS NOT NULL LIMIT 1),
       fleet.alive, fleet.draining, fleet.dead
FROM (
  SELECT array_agg(c.state) AS states, array_agg(c.n) AS counts, array_agg(c.more) AS more
  FROM tenure.state_counts('{}', :cap::int, NULL) AS c
) AS counted
CROSS JOIN (
  SELECT count(*) FILTER (WHERE w.status = 'alive')::int AS alive, count(*) FILTER (WHERE w.status = 'draining')::int AS draining,
         count(*) FILTER (WHERE w.status = 'dead')::int AS dead
  FROM tenure.workers AS w
) AS fleet
LIMIT 1
