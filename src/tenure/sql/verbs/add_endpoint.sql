-- add_endpoint: tell this address of a tenant's webhooks from now on, unless the tenant has as many as it may
-- in: id uuid, tenant text, url text, kinds text[], secret text, n int (how many a tenant may have)
-- out: id
-- why: the number is counted without a lock: two at once may go one beyond it.
INSERT INTO tenure.endpoints (id, tenant, url, kinds, secret)
SELECT :id::uuid, :tenant, :url, :kinds::text[], :secret
WHERE (SELECT count(*) FROM tenure.endpoints AS e WHERE e.tenant = :tenant AND e.state <> 'disabled') < :n
RETURNING id
