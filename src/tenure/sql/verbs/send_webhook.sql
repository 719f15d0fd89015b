-- send_webhook: keep a webhook and make a row for each endpoint of a tenant that wants its kind, in the caller's transaction
-- in: tenant text, kind text, body bytea, queue text
-- out: webhook_id, sent
SELECT s.webhook_id, s.sent FROM tenure.send_webhook(:tenant, :kind, :body::bytea, :queue) AS s
