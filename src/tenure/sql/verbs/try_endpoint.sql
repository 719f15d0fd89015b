-- try_endpoint: send one webhook of a kind for tests to an endpoint, whatever kinds it wants
-- in: id uuid, kind text, body bytea, queue text
-- out: webhook_id, sent
WITH made AS (
  INSERT INTO tenure.webhooks (tenant, kind, body)
  SELECT e.tenant, :kind::text, :body::bytea FROM tenure.endpoints AS e
  WHERE e.id = :id::uuid
    AND e.state <> 'disabled'
  RETURNING id
)
SELECT made.id, tenure.deliver_to(made.id, ARRAY[:id::uuid], :queue) FROM made
