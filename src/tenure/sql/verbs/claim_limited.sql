-- claim_limited: take up to n runnable rows of one queue, ordered or not, as far as its limits allow
-- in: worker text, claim_id bigint, lease_seconds float8, n int, seen_epoch int, queue text
-- out: id, kind, queue, partition_key, partition_bucket, payload, attempts, max_attempts, available_seconds, lease_generation, fence_token, ends_seconds, headers
-- why: claims of one queue go one by one behind the lock of its settings, so that what they count is exact across workers. The
-- walk is in the function: it must see what was committed by the time the lock is had, and a statement sees only what was before.
SELECT taken.id, taken.kind, taken.queue, taken.partition_key, taken.partition_bucket, taken.payload,
       taken.attempts, taken.max_attempts, taken.available_seconds, taken.lease_generation, taken.fence_token,
       taken.ends_seconds, taken.headers
FROM tenure.claim_limited(:queue, :n, :worker, :claim_id, :lease_seconds, :seen_epoch) AS taken
