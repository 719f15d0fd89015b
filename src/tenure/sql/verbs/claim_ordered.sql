-- claim_ordered: take the next rows of up to n ordered keys for one worker, so that a key never has two holders
-- in: worker text, claim_id bigint, lease_seconds float8, n int, run_length int, most int (rows in all), seen_epoch int, queues text[], buckets int[] (NULL: all), from_arrival bigint, from_due float8 (epoch seconds)
-- out: id, kind, queue, partition_key, partition_bucket, payload, attempts, max_attempts, available_seconds, lease_generation, fence_token, ends_seconds, headers, seq
-- why: of each key a run: rows that can be done one after the other, each under its own lease. The rows of a key come in
-- order. The search is in the function: it must see what was committed by the time the heads are locked, and a statement sees
-- only what was before.
WITH taken AS MATERIALIZED (
  SELECT c.id, c.kind, c.queue, c.partition_key, c.partition_bucket, c.payload, c.attempts, c.max_attempts, c.available_seconds,
         c.lease_generation, c.fence_token, c.ends_seconds, c.headers, c.seq, c.ordinality
  FROM tenure.claim_ordered(:queues::text[], :buckets::int[], :n, :run_length, :most, :worker, :claim_id, :lease_seconds, :seen_epoch,
                            :from_arrival, tenure.since(:from_due)) WITH ORDINALITY AS c
), listed AS (
  INSERT INTO tenure.claims (until, claim_id, ids)
  SELECT max(to_timestamp(t.ends_seconds)), :claim_id, array_agg(t.id) FROM taken AS t HAVING count(*) > 0
)
SELECT t.id, t.kind, t.queue, t.partition_key, t.partition_bucket, t.payload, t.attempts, t.max_attempts, t.available_seconds,
       t.lease_generation, t.fence_token, t.ends_seconds, t.headers, t.seq
FROM taken AS t
ORDER BY t.ordinality
