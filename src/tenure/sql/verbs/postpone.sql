-- postpone: make pending rows of a queue due later, those of one key or of one kind
-- in: queue text, partition_key text (NULL: any), kind text (NULL: any), until timestamptz, n int
-- out: rows
-- why: one statement for all that waits, where one attempt each would cost a claim and a write. A row that is due later stays so.
WITH waiting AS (
  SELECT i.id FROM tenure.live AS i
  WHERE i.queue = :queue
    AND (:partition_key::text IS NULL OR i.partition_key = :partition_key::text)
    AND (:kind::text IS NULL OR i.kind = :kind::text)
    AND i.status = 'pending'
    AND i.available_at < :until::timestamptz
  ORDER BY i.id
  LIMIT :n
  FOR UPDATE SKIP LOCKED
), moved AS (
  UPDATE tenure.live AS i SET available_at = :until::timestamptz FROM waiting
  WHERE i.id = waiting.id
  RETURNING i.id
)
SELECT count(*) FROM moved
