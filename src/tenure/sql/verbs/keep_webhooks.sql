-- keep_webhooks: forget webhooks and calls past retention, in batches
-- in: retention_seconds float8, n int
-- out: webhooks, deliveries
SELECT k.webhooks, k.deliveries FROM tenure.keep_webhooks(:retention_seconds::float8, :n::int) AS k
