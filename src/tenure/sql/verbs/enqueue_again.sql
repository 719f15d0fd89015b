-- enqueue_again: put one row into the inbox under an idempotency key whose row has ended or that is new, or find the row that has it
-- in: kind text, payload jsonb, partition_key text, queue text, priority smallint, at timestamptz, delay_seconds float8, max_attempts int, ordered boolean, hold boolean, headers jsonb, idempotency_key text
-- out: id, outcome (enqueued, duplicate, conflict)
SELECT sent.row_id, sent.outcome
FROM tenure.enqueue_again(:kind::text, :payload::jsonb, :partition_key::text, :queue::text, :priority::smallint, :at::timestamptz,
                          :delay_seconds::float8, :max_attempts::int, :ordered::boolean, :hold::boolean, :headers::jsonb,
                          :idempotency_key::text) AS sent
