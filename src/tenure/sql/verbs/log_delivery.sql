-- log_delivery: how a call went, and what follows for its endpoint, in the fenced transaction of its holder
-- in: row_id uuid, fence bigint, attempt int, webhook_id uuid, endpoint_id uuid, status int, ms int, address text, note text, verdict text (ok, failed, gone), slow_seconds float8
-- out: change (tripped, restored, disabled or NULL), open_until
SELECT l.change, l.open_until
FROM tenure.log_delivery(:row_id::uuid, :fence::bigint, :attempt::int, :webhook_id::uuid, :endpoint_id::uuid, :status::int, :ms::int, :address::text,
                         :note::text, :verdict, :slow_seconds::float8) AS l
