-- erase_tenant: erase what is kept of a tenant's webhooks: its endpoints, its webhooks and the log of their calls
-- in: tenant text, n int
-- out: endpoints, webhooks, deliveries
-- why: at most n webhooks and calls; the endpoints go first, so that nothing is sent any more. Run it until all are 0.
WITH gone AS (
  DELETE FROM tenure.endpoints AS e WHERE e.tenant = :tenant RETURNING e.id
), chosen AS (
  SELECT m.id FROM tenure.webhooks AS m WHERE m.tenant = :tenant ORDER BY m.id LIMIT :n
), called AS (
  DELETE FROM tenure.deliveries AS d
  WHERE d.webhook_id IN (SELECT chosen.id FROM chosen) OR d.endpoint_id IN (SELECT gone.id FROM gone)
  RETURNING d.row_id
), erased AS (
  DELETE FROM tenure.webhooks AS m WHERE m.id IN (SELECT chosen.id FROM chosen) RETURNING m.id
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM erased), (SELECT count(*) FROM called)
