-- blocked_keys: ordered keys that cannot go on, the row that blocks each, and how many rows wait behind it
-- in: n int
-- out: queue, partition_key, head, status, reason (held, scheduled, waits_for_operator), waiting
WITH taken AS (
  SELECT DISTINCT ON (d.queue, d.partition_key) d.queue, d.partition_key, d.id AS head FROM tenure.dead AS d
  WHERE d.blocks
  ORDER BY d.queue, d.partition_key, d.seq
), first AS (
  SELECT DISTINCT ON (r.queue, r.partition_key) r.queue, r.partition_key, r.id AS head, r.status, r.available_at
  FROM tenure.live AS r
  WHERE r.ordered
  ORDER BY r.queue, r.partition_key, r.status = 'pending', r.attempts = 0, r.seq
), blocked AS (
  SELECT taken.queue, taken.partition_key, taken.head FROM taken
  UNION ALL
  SELECT first.queue, first.partition_key, first.head FROM first
  WHERE (first.status = 'processing' OR first.available_at > statement_timestamp())
    AND NOT EXISTS (SELECT FROM taken AS t WHERE t.queue = first.queue AND t.partition_key = first.partition_key)
)
SELECT t.queue, t.partition_key, t.head, i.status,
       CASE i.status WHEN 'processing' THEN 'held' WHEN 'pending' THEN 'scheduled' ELSE 'waits_for_operator' END,
       (SELECT count(*)::int FROM tenure.live AS r
        WHERE r.ordered AND r.queue = t.queue AND tenure.bucket(r.partition_key) = tenure.bucket(t.partition_key)
          AND r.partition_key = t.partition_key AND r.id <> t.head) AS waiting
FROM blocked AS t
JOIN tenure.inbox AS i ON i.id = t.head
ORDER BY waiting DESC, t.queue, t.partition_key
LIMIT :n
