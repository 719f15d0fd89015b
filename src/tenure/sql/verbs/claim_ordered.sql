-- claim_ordered: take the heads of up to n free keys for one worker, so that a key never has two rows in flight
-- in: worker text, claim_id bigint, lease_seconds float8, n int, per_bucket int, seen_epoch int, queues text[], buckets int[], after_key text
-- out: id, kind, queue, partition_key, partition_bucket, payload, attempts, max_attempts, available_seconds, lease_generation, fence_token, ends_seconds, headers
-- why: the heads are found by a loose walk (one probe a key, however long its stream), then that fixed set is locked, row
-- first and key second. Taking the key is inserting it: the primary key of tenure.keys is the promise. A head
-- that waits for its time blocks its key and no other. after_key starts the walk further on, for buckets of many keys.
WITH RECURSIVE head AS (
  SELECT lane.queue, owned.bucket, first.partition_key, first.id, 1 AS depth
  FROM unnest(:queues::text[]) AS lane (queue)
  CROSS JOIN unnest(:buckets::int[]) AS owned (bucket)
  CROSS JOIN LATERAL (
    SELECT r.partition_key, r.id FROM tenure.live AS r
    WHERE r.ordered AND r.queue = lane.queue AND tenure.bucket(r.partition_key) = owned.bucket AND r.partition_key > :after_key
    ORDER BY r.partition_key, r.seq LIMIT 1
  ) AS first
  WHERE lane.queue <> ALL (ARRAY(SELECT q.queue FROM tenure.queues AS q WHERE q.limited))
  UNION ALL
  SELECT head.queue, head.bucket, further.partition_key, further.id, head.depth + 1
  FROM head
  CROSS JOIN LATERAL (
    SELECT r.partition_key, r.id FROM tenure.live AS r
    WHERE r.ordered AND r.queue = head.queue AND tenure.bucket(r.partition_key) = head.bucket AND r.partition_key > head.partition_key
    ORDER BY r.partition_key, r.seq LIMIT 1
  ) AS further
  WHERE head.depth < :per_bucket
), locked AS (
  SELECT r.id, r.queue, r.partition_key
  FROM tenure.live AS r
  WHERE r.id = ANY (ARRAY(SELECT head.id FROM head))
    AND r.status = 'pending'  -- implied: a processing ordered row has its key taken, by the primary key of keys
    AND r.available_at <= statement_timestamp()
    AND NOT EXISTS (SELECT FROM tenure.keys AS k WHERE k.queue = r.queue AND k.partition_key = r.partition_key)
    AND NOT EXISTS (SELECT FROM tenure.workers AS w WHERE w.id = :worker AND (w.status <> 'alive' OR w.gone_at IS NOT NULL))
  ORDER BY r.id
  LIMIT :n
  FOR UPDATE OF r SKIP LOCKED
), taken AS (
  INSERT INTO tenure.keys (queue, partition_key, row_id)
  SELECT locked.queue, locked.partition_key, locked.id FROM locked ORDER BY locked.queue, locked.partition_key
  ON CONFLICT DO NOTHING
  RETURNING row_id
)
UPDATE tenure.live AS i
SET status = 'processing',
    claimed_by = :worker,
    claimed_at = (SELECT clock_timestamp()),
    lease_expires_at = (SELECT clock_timestamp() + :lease_seconds * interval '1 second'),
    lease_generation = i.lease_generation + 1,
    fence_token = (SELECT tenure.next_fence(:seen_epoch)),
    claim_id = :claim_id,
    attempts = i.attempts + 1
FROM taken
WHERE i.id = taken.row_id
RETURNING i.id, i.kind, i.queue, COALESCE(i.partition_key, i.id::text), tenure.bucket(COALESCE(i.partition_key, i.id::text)), i.payload::text,
          i.attempts, i.max_attempts, date_part('epoch', i.available_at), i.lease_generation, i.fence_token,
          date_part('epoch', i.lease_expires_at), i.headers::text
