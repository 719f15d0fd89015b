-- enqueue: put one row into the inbox, in the caller's own transaction
-- in: kind text, payload jsonb, partition_key text, queue text, priority smallint, at timestamptz, delay_seconds float8, max_attempts int, ordered boolean, hold boolean, headers jsonb
-- out: id
-- why: a function, because the server keeps the plan of its INSERT: also where a pooler forbids prepared statements.
SELECT tenure.enqueue_one(:kind::text, :payload::jsonb, :partition_key::text, :queue::text, :priority::smallint, :at::timestamptz,
                          :delay_seconds::float8, :max_attempts::int, :ordered::boolean, :hold::boolean, :headers::jsonb) AS id
