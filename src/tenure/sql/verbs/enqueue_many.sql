-- enqueue_many: put rows into the inbox, in the caller's own transaction
-- in: kinds text[], payloads jsonb[], partition_keys text[], queues text[], priorities smallint[], ats timestamptz[], delays float8[], idempotency_keys text[], max_attempts int[], ordered boolean[], holds boolean[], headers jsonb[]
-- out: id, outcome (enqueued, duplicate, conflict)
SELECT sent.row_id, sent.outcome
FROM tenure.enqueue_many(:kinds::text[], :payloads::jsonb[], :partition_keys::text[], :queues::text[], :priorities::smallint[],
                         :ats::timestamptz[], :delays::float8[], :idempotency_keys::text[], :max_attempts::int[],
                         :ordered::boolean[], :holds::boolean[], :headers::jsonb[]) AS sent
