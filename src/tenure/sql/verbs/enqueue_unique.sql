-- enqueue_unique: put one row into the inbox unless the row that has its idempotency key is pending, or was sent within so many seconds
-- in: kind text, payload jsonb, partition_key text, queue text, priority smallint, at timestamptz, delay_seconds float8, max_attempts int, ordered boolean, hold boolean, headers jsonb, idempotency_key text, for_seconds float8
-- out: id, outcome (enqueued, duplicate)
-- why: the pending row is locked until the caller commits, so that it cannot begin before it sees what the caller has written.
SELECT sent.row_id, sent.outcome
FROM tenure.enqueue_unique(:kind::text, :payload::jsonb, :partition_key::text, :queue::text, :priority::smallint, :at::timestamptz,
                           :delay_seconds::float8, :max_attempts::int, :ordered::boolean, :hold::boolean, :headers::jsonb,
                           :idempotency_key::text, :for_seconds::float8) AS sent
