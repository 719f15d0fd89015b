-- claim: take the n unordered rows that have been due longest, each under a new generation
-- in: worker text, claim_id bigint, lease_seconds float8, n int, seen_epoch int
-- in: queues text[], priorities smallint[] (the lanes, most urgent first), floors float8[] (epoch seconds, one a lane)
-- in: buckets int[] (only rows of these; NULL: of all)
-- out: id, kind, queue, partition_key, partition_bucket, payload, attempts, max_attempts, available_seconds, lease_generation, fence_token, ends_seconds, headers, seq, priority (rows as they lie on the pages: the caller puts them in order)
-- why: by time, and what others have locked is passed: nothing about unordered rows needs an owner. Neighbours in time are neighbours on
-- the page. A floor lets the search pass index entries of rows already gone. Rows are taken by ctid: one that changed between our
-- snapshot and its lock is simply not taken this round. With buckets, the rows of others are read and left.
-- Attempts count here: a worker that dies mid-handler must use one up. What is taken is listed for sweep, in claims: until when is asked
-- after the leases began. The rows come from the update itself, not by way of a list of them, which would be written and read once more.
WITH picked AS MATERIALIZED (
  SELECT ready.ctid, ready.id
  FROM unnest(:queues::text[], :priorities::smallint[], :floors::float8[]) AS lane (queue, priority, floor)
  CROSS JOIN LATERAL (
    SELECT r.ctid, r.id
    FROM tenure.live AS r
    WHERE NOT r.ordered
      AND r.seq < 9223372036854775807  -- implied: always so; lets live_due serve and no other index
      AND r.queue = lane.queue
      AND r.priority = lane.priority
      AND r.available_at >= tenure.since(lane.floor)
      AND r.available_at <= statement_timestamp()
      AND r.status = 'pending'
      AND (:buckets::int[] IS NULL OR tenure.bucket(COALESCE(r.partition_key, r.id::text)) = ANY (:buckets::int[]))
    ORDER BY r.available_at
    LIMIT :n
    FOR UPDATE SKIP LOCKED
  ) AS ready
  WHERE NOT EXISTS (SELECT FROM tenure.workers AS w WHERE w.id = :worker AND (w.status <> 'alive' OR w.gone_at IS NOT NULL))
    AND lane.queue <> ALL (ARRAY(SELECT q.queue FROM tenure.queues AS q WHERE q.limited))
  LIMIT :n
), listed AS (
  INSERT INTO tenure.claims (until, claim_id, ids)
  SELECT clock_timestamp() + :lease_seconds * interval '1 second', :claim_id, array_agg(p.id) FROM picked AS p HAVING count(*) > 0
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
WHERE i.ctid = ANY (ARRAY(SELECT p.ctid FROM picked AS p))
RETURNING i.id, i.kind, i.queue, COALESCE(i.partition_key, i.id::text), tenure.bucket(COALESCE(i.partition_key, i.id::text)), i.payload::text,
          i.attempts, i.max_attempts, date_part('epoch', i.available_at), i.lease_generation, i.fence_token,
          date_part('epoch', i.lease_expires_at), i.headers::text, i.seq, i.priority
