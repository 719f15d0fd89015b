-- claim: take up to n runnable rows for one worker, each under a new generation
-- in: worker text, claim_id bigint, lease_seconds float8, n int, per_bucket int, seen_epoch int
-- in: queues text[], priorities smallint[] (the lanes, most urgent first), buckets int[], floors float8[] (epoch seconds)
-- out: id, kind, queue, partition_key, partition_bucket, payload, attempts, max_attempts, available_seconds, lease_generation, fence_token, ends_seconds, headers
-- why: walks lane by lane and bucket by bucket and stops at n, so the backlog behind does not matter. A floor lets the
-- walk skip index entries of rows already gone. Rows are taken by ctid: one that changed between our snapshot and
-- its lock is simply not taken this round. Attempts count here: a worker that dies mid-handler must use one up.
UPDATE tenure.live AS i
SET status = 'processing',
    claimed_by = :worker,
    claimed_at = (SELECT clock_timestamp()),
    lease_expires_at = (SELECT clock_timestamp() + :lease_seconds * interval '1 second'),
    lease_generation = i.lease_generation + 1,
    fence_token = (SELECT tenure.next_fence(:seen_epoch)),
    claim_id = :claim_id,
    attempts = i.attempts + 1
WHERE i.ctid = ANY (ARRAY(
  SELECT taken.ctid
  FROM unnest(:queues::text[], :priorities::smallint[]) AS lane (queue, priority)
  CROSS JOIN LATERAL (
    SELECT head.ctid
    FROM unnest(:buckets::int[], :floors::float8[]) AS owned (bucket, floor)
    CROSS JOIN LATERAL (
      SELECT r.ctid
      FROM tenure.live AS r
      WHERE NOT r.ordered
        AND r.queue = lane.queue
        AND r.priority = lane.priority
        AND tenure.bucket(COALESCE(r.partition_key, r.id::text)) = owned.bucket
        AND r.available_at >= to_timestamp(owned.floor)
        AND r.available_at <= statement_timestamp()
        AND r.status = 'pending'
      ORDER BY r.available_at
      LIMIT :per_bucket
      FOR UPDATE SKIP LOCKED
    ) AS head
  ) AS taken
  WHERE NOT EXISTS (SELECT FROM tenure.workers AS w WHERE w.id = :worker AND (w.status <> 'alive' OR w.gone_at IS NOT NULL))
    AND lane.queue <> ALL (ARRAY(SELECT q.queue FROM tenure.queues AS q WHERE q.limited))
  LIMIT :n
))
RETURNING i.id, i.kind, i.queue, COALESCE(i.partition_key, i.id::text), tenure.bucket(COALESCE(i.partition_key, i.id::text)), i.payload::text,
          i.attempts, i.max_attempts, date_part('epoch', i.available_at), i.lease_generation, i.fence_token,
          date_part('epoch', i.lease_expires_at), i.headers::text
