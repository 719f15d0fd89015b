-- blocked_keys: ordered keys that cannot go on, the row that blocks each, and how many rows wait behind it
-- in: n int
-- out: queue, partition_key, head, status, reason (held, scheduled, waits_for_operator), waiting
WITH taken AS (
  SELECT k.queue, k.partition_key, k.row_id AS head FROM tenure.keys AS k
  UNION
  SELECT DISTINCT ON (r.queue, r.partition_key) r.queue, r.partition_key, r.id
  FROM tenure.live AS r
  WHERE r.ordered AND r.status = 'pending' AND r.available_at > statement_timestamp()
    AND NOT EXISTS (SELECT FROM tenure.live AS earlier
                    WHERE earlier.ordered AND earlier.queue = r.queue AND tenure.bucket(earlier.partition_key) = tenure.bucket(r.partition_key)
                      AND earlier.partition_key = r.partition_key AND earlier.seq < r.seq)
    AND NOT EXISTS (SELECT FROM tenure.keys AS k WHERE k.queue = r.queue AND k.partition_key = r.partition_key)
)
SELECT t.queue, t.partition_key, t.head, i.status,
       CASE i.status WHEN 'processing' THEN 'held' WHEN 'pending' THEN 'scheduled' ELSE 'waits_for_operator' END,
       (SELECT count(*)::int FROM tenure.live AS r
        WHERE r.ordered AND r.queue = t.queue AND tenure.bucket(r.partition_key) = tenure.bucket(t.partition_key)
          AND r.partition_key = t.partition_key AND r.id <> t.head) AS waiting
FROM taken AS t
JOIN tenure.inbox AS i ON i.id = t.head
ORDER BY waiting DESC, t.queue, t.partition_key
LIMIT :n
