-- ring_depth: how many pending rows of these queues are in each arc of 16 buckets, counted up to a cap in each lane
-- in: queues text[], cap int
-- out: arc, n
WITH arcs AS (
  SELECT a.arc FROM generate_series(0, 63) AS a (arc)
), unordered AS (
  SELECT arcs.arc, met.n
  FROM arcs CROSS JOIN tenure.lanes() AS l CROSS JOIN LATERAL (
    SELECT count(waiting.one) AS n FROM (
      SELECT 1 AS one FROM tenure.live AS r
      WHERE NOT r.ordered AND r.seq > 0 AND r.queue = l.queue AND r.priority = l.priority
        AND tenure.bucket(COALESCE(r.partition_key, r.id::text)) >= arcs.arc * 16
        AND tenure.bucket(COALESCE(r.partition_key, r.id::text)) < arcs.arc * 16 + 16
        AND r.status = 'pending'
      LIMIT :cap) AS waiting) AS met
  WHERE l.queue = ANY (:queues::text[])
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
