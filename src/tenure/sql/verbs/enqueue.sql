-- enqueue: put rows into the inbox, in the caller's own transaction
-- in: kinds text[], payloads text[] (JSON), partition_keys text[], queues text[], priorities smallint[], ats timestamptz[], delays float8[], idempotency_keys text[], max_attempts int[], ordered boolean[], holds boolean[], headers text[] (JSON)
-- out: id, outcome (enqueued, duplicate, conflict)
SELECT sent.row_id, sent.outcome
FROM tenure.enqueue_many(:kinds::text[], :payloads::text[]::jsonb[], :partition_keys::text[], :queues::text[], :priorities::smallint[],
                         :ats::timestamptz[], :delays::float8[], :idempotency_keys::text[], :max_attempts::int[],
                         :ordered::boolean[], :holds::boolean[], :headers::text[]::jsonb[]) AS sent
