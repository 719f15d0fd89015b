-- begin_delivery: what the holder of a delivery needs for one call, if its endpoint may be called now
-- in: row_id uuid, generation bigint, fence bigint, webhook_id uuid, endpoint_id uuid
-- out: outcome (go, open, paused, disabled, gone), wait_seconds, url, secret, secret_before, tenant, body, moment, note
-- why: a function: a secret is read only for a row that the asker holds. No row comes back for a lease that is over.
SELECT b.outcome, b.wait_seconds, b.url, b.secret, b.secret_before, b.tenant, b.body, b.moment, b.note
FROM tenure.begin_delivery(:row_id::uuid, :generation::bigint, :fence::bigint, :webhook_id::uuid, :endpoint_id::uuid) AS b
