-- ring_depth: how many pending rows of these queues are in each arc of 16 buckets, counted up to a cap
-- in: queues text[], cap int
-- out: arc, n
-- why: only ordered keys have an owner, and an index by bucket. Of the other rows the first of each lane are counted, by time.
WITH arcs AS (
  SELECT a.arc FROM generate_series(0, 63) AS a (arc)
), unordered AS (
  SELECT met.arc, LEAST(count(*), :cap) AS n
  FROM tenure.lanes() AS l CROSS JOIN LATERAL (
    SELECT tenure.bucket(COALESCE(r.partition_key, r.id::text)) / 16 AS arc FROM tenure.live AS r
    WHERE NOT r.ordered AND r.seq < 9223372036854775807 AND r.queue = l.queue AND r.priority = l.priority AND r.status = 'pending'
    ORDER BY r.available_at
    LIMIT :cap * 16) AS met
  WHERE l.queue = ANY (:queues::text[])
  GROUP BY met.arc
), ordered AS (
  SELECT arcs.arc, met.n
  FROM arcs CROSS JOIN tenure.ordered_queues() AS o CROSS JOIN LATERAL (
    SELECT count(waiting.one) AS n FROM (
      SELECT 1 AS one FROM tenure.live AS r
      WHERE r.ordered AND r.queue = o.queue
        AND tenure.bucket(r.partition_key) >= arcs.arc * 16
        AND tenure.bucket(r.partition_key) < arcs.arc * 16 + 16
        AND r.status = 'pending'
      LIMIT :cap) AS waiting) AS met
  WHERE o.queue = ANY (:queues::text[])
)
SELECT both_kinds.arc, sum(both_kinds.n)::int
FROM (SELECT arc, n FROM unordered UNION ALL SELECT arc, n FROM ordered) AS both_kinds
GROUP BY both_kinds.arc
ORDER BY both_kinds.arc
LIMIT 64
