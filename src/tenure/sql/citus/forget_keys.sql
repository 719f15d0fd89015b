-- forget_keys: forget idempotency keys of the whole cluster that were taken so many seconds ago or earlier
-- in: seconds float8
-- out: keys
SELECT tenure_door.forget(clock_timestamp() - :seconds::float8 * interval '1 second') AS keys
