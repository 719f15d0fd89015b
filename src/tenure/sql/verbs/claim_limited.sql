-- claim_limited: take up to n runnable rows of one queue, ordered or not, as far as its limits allow
-- in: worker text, claim_id bigint, lease_seconds float8, n int, seen_epoch int, queue text
-- in: priorities smallint[] (NULL: all there are), floors float8[] (epoch seconds, one a priority), from_arrival bigint, from_due float8 (epoch seconds): of ordered keys
-- out: id, kind, queue, partition_key, partition_bucket, payload, attempts, max_attempts, available_seconds, lease_generation, fence_token, ends_seconds, headers, seq
-- why: claims of one queue go one by one behind the lock of its settings, so that what they count is exact across workers. The
-- walk is in the function: it must see what was committed by the time the lock is had, and a statement sees only what was before.
WITH taken AS MATERIALIZED (
  SELECT c.id, c.kind, c.queue, c.partition_key, c.partition_bucket, c.payload, c.attempts, c.max_attempts, c.available_seconds,
         c.lease_generation, c.fence_token, c.ends_seconds, c.headers, c.seq
  FROM tenure.claim_limited(:queue, :n, :worker, :claim_id, :lease_seconds, :seen_epoch, :priorities::smallint[], :floors::float8[],
                             :from_arrival, tenure.since(:from_due)) AS c
), listed AS (
  INSERT INTO tenure.claims (until, claim_id, ids)
  SELECT max(to_timestamp(t.ends_seconds)), :claim_id, array_agg(t.id) FROM taken AS t HAVING count(*) > 0
)
SELECT t.id, t.kind, t.queue, t.partition_key, t.partition_bucket, t.payload, t.attempts, t.max_attempts, t.available_seconds,
       t.lease_generation, t.fence_token, t.ends_seconds, t.headers, t.seq
FROM taken AS t
