-- Webhooks: whom a tenant wants to be told, what was said to them, and how each call went.
-- kind: expand
--
--   endpoints    one row an address. A healthy one is only read: its row is written when something changes
--   webhooks     the bytes that are signed and sent, the same for every attempt
--   deliveries   one row a call. The work itself is a row of live with the key endpoint:ID
--
-- Plain tables: ids begin with their time, so what is past retention is a range of the primary key, forgotten in batches.

CREATE TABLE tenure.endpoints (
  id            uuid        NOT NULL PRIMARY KEY,
  tenant        text        NOT NULL CHECK (octet_length(tenant) BETWEEN 1 AND 256),
  url           text        NOT NULL,
  kinds         text[]      NOT NULL,
  state         text        NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'disabled')),
  secret        text        NOT NULL,  -- whsec_…, or sealed; read by begin_delivery alone
  secret_before text,                  -- signs too until before_until: a rotation is open
  before_until  timestamptz,
  failures      int         NOT NULL DEFAULT 0,  -- in a row
  failing_since timestamptz,
  open_until    timestamptz,                     -- the circuit is open; once this is past, one probe goes first
  probe_until   timestamptz,
  note          text,
  made_at       timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 80);
CREATE INDEX endpoints_tenant ON tenure.endpoints (tenant);

CREATE TABLE tenure.webhooks (
  id     uuid  NOT NULL PRIMARY KEY DEFAULT tenure.new_id(),
  tenant text  NOT NULL,
  kind   text  NOT NULL,
  body   bytea NOT NULL
);

CREATE TABLE tenure.deliveries (
  row_id      uuid        NOT NULL,
  fence_token bigint      NOT NULL,
  attempt     int         NOT NULL,
  endpoint_id uuid        NOT NULL,
  webhook_id  uuid        NOT NULL,
  at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  status      int,          -- NULL: no answer
  ms          int         NOT NULL,
  address     text,         -- NULL: nothing was connected to
  note        text,
  PRIMARY KEY (row_id, fence_token)
);
CREATE INDEX deliveries_endpoint ON tenure.deliveries (endpoint_id, at);

-- One row of live for each endpoint: the work.
CREATE FUNCTION tenure.deliver_to(of_webhook uuid, to_endpoints uuid[], in_queue text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  n int := cardinality(to_endpoints);
BEGIN
  IF n > 0 THEN
    PERFORM tenure.enqueue_many(
      array_fill('webhook'::text, ARRAY[n]), ARRAY(SELECT jsonb_build_object('webhook', of_webhook, 'endpoint', e.id) FROM unnest(to_endpoints) AS e (id)),
      ARRAY(SELECT format('endpoint:%s', e.id) FROM unnest(to_endpoints) AS e (id)), array_fill(in_queue, ARRAY[n]), array_fill(0::smallint, ARRAY[n]),
      array_fill(NULL::timestamptz, ARRAY[n]), array_fill(0::float8, ARRAY[n]), array_fill(NULL::text, ARRAY[n]), array_fill(10, ARRAY[n]),
      array_fill(false, ARRAY[n]), array_fill(false, ARRAY[n]), array_fill(NULL::jsonb, ARRAY[n]));
  END IF;
  RETURN n;
END
$$;

-- Keep the bytes, and make one row for each endpoint of the tenant that wants this kind. In the caller's transaction. No endpoint:
-- the webhook is kept all the same, it can be replayed to one that is added later.
CREATE FUNCTION tenure.send_webhook(of_tenant text, of_kind text, of_body bytea, in_queue text, OUT webhook_id uuid, OUT sent int) LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF of_kind IS NULL OR of_kind !~ '^[!-~]{1,200}$' OR of_tenant IS NULL OR of_body IS NULL OR octet_length(of_body) > 1048576 THEN
    RAISE EXCEPTION 'send_webhook needs a tenant, a kind such as order.paid, and a body of 1 MiB at most' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  INSERT INTO tenure.webhooks AS m (tenant, kind, body) VALUES (of_tenant, of_kind, of_body) RETURNING m.id INTO webhook_id;
  sent := tenure.deliver_to(webhook_id, ARRAY(
    SELECT e.id FROM tenure.endpoints AS e
    WHERE e.tenant = of_tenant
      AND e.state <> 'disabled'
      AND EXISTS (SELECT FROM unnest(e.kinds) AS k (word) WHERE k.word = of_kind OR (right(k.word, 1) = '*' AND starts_with(of_kind, left(k.word, -1))))
    ORDER BY e.id
    LIMIT 1000), in_queue);
END
$$;

-- Another secret signs from now on; the one before signs too for a while, so that the receiver can change over. Without a while it is over
-- at once with every secret before, also with one whose while is not over. Else a second rotation waits: until is NULL then, and
-- open_until says for what. No row: no such endpoint.
CREATE FUNCTION tenure.rotate_secret(of_endpoint uuid, to_secret text, overlap_seconds float8)
  RETURNS TABLE (until timestamptz, open_until timestamptz) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  SELECT e.before_until INTO open_until FROM tenure.endpoints AS e WHERE e.id = of_endpoint FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF overlap_seconds = 0 OR COALESCE(open_until <= clock_timestamp(), true) THEN
    UPDATE tenure.endpoints AS e
    SET secret_before = CASE WHEN overlap_seconds > 0 THEN e.secret END, secret = to_secret,
        before_until = clock_timestamp() + overlap_seconds * interval '1 second'
    WHERE e.id = of_endpoint
    RETURNING e.before_until INTO until;
  END IF;
  RETURN NEXT;
END
$$;

-- What a holder needs for one call: the address, the live secrets, the bytes. Only for a row that it holds. Says open while the circuit is;
-- once its time is past, one asker gets the probe, by the row's lock, and the others wait for what becomes of it.
CREATE FUNCTION tenure.begin_delivery(held_row uuid, held_generation bigint, held_fence bigint, of_webhook uuid, of_endpoint uuid)
  RETURNS TABLE (outcome text, wait_seconds float8, url text, secret text, secret_before text, tenant text, body bytea, moment float8, note text) LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  e record;
  m record;
BEGIN
  PERFORM FROM tenure.live AS i
  WHERE i.id = held_row
    AND i.status = 'processing'  -- implied: live_state, only a processing row has a lease
    AND i.lease_generation = held_generation
    AND i.fence_token = held_fence
    AND i.lease_expires_at > clock_timestamp()
    AND i.payload ->> 'endpoint' = of_endpoint::text
    AND i.payload ->> 'webhook' = of_webhook::text;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT p.url, p.tenant, p.state, p.secret, p.open_until, p.note, p.secret_before, p.before_until INTO e
  FROM tenure.endpoints AS p WHERE p.id = of_endpoint;
  -- Whoever may enqueue can write such a row: what one tenant is told is never sent to another.
  SELECT g.tenant, g.body INTO m FROM tenure.webhooks AS g
  WHERE g.id = of_webhook
    AND g.tenant = e.tenant;
  outcome := CASE WHEN e.url IS NULL OR m.tenant IS NULL THEN 'gone' WHEN e.state <> 'active' THEN e.state
                  WHEN e.open_until IS NULL THEN 'go' ELSE 'open' END;
  wait_seconds := GREATEST(date_part('epoch', e.open_until - clock_timestamp()), 5);
  IF outcome = 'open' AND e.open_until <= clock_timestamp() THEN
    UPDATE tenure.endpoints AS p SET probe_until = clock_timestamp() + interval '30 seconds'
    WHERE p.id = of_endpoint
      AND p.open_until <= clock_timestamp()
      AND COALESCE(p.probe_until <= clock_timestamp(), true);
    IF FOUND THEN
      outcome := 'go';
    END IF;
  END IF;
  url := e.url;
  note := e.note;
  moment := date_part('epoch', clock_timestamp());
  IF outcome = 'go' THEN
    secret := e.secret;
    secret_before := CASE WHEN e.before_until > clock_timestamp() THEN e.secret_before END;
    tenant := m.tenant;
    body := m.body;
  END IF;
  RETURN NEXT;
END
$$;

-- How a call went, and what follows for its endpoint: failed calls in a row open the circuit, days of them disable it. Part of the fenced
-- transaction of the holder. While the circuit is open a failure tells nothing new, and changes nothing but the log.
CREATE FUNCTION tenure.log_delivery(
  of_row uuid, of_fence bigint, of_attempt int, of_webhook uuid, of_endpoint uuid, of_status int, of_ms int, of_address text, of_note text,
  verdict text, slow_seconds float8, OUT change text, OUT open_until timestamptz
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  e record;
  moment timestamptz := clock_timestamp();
  n int;
BEGIN
  INSERT INTO tenure.deliveries (row_id, fence_token, attempt, webhook_id, endpoint_id, status, ms, address, note)
  VALUES (of_row, of_fence, of_attempt, of_webhook, of_endpoint, of_status, of_ms, of_address, of_note)
  ON CONFLICT (row_id, fence_token) DO NOTHING;
  IF verdict = 'ok' THEN
    SELECT p.open_until INTO e FROM tenure.endpoints AS p WHERE p.id = of_endpoint AND p.failures > 0 FOR NO KEY UPDATE;
    IF FOUND THEN
      UPDATE tenure.endpoints AS p SET failures = 0, failing_since = NULL, open_until = NULL, probe_until = NULL, note = NULL WHERE p.id = of_endpoint;
      change := CASE WHEN e.open_until IS NOT NULL THEN 'restored' END;
    END IF;
    RETURN;
  END IF;
  SELECT p.state, p.failures, p.failing_since, p.open_until INTO e FROM tenure.endpoints AS p WHERE p.id = of_endpoint FOR NO KEY UPDATE;
  IF NOT FOUND OR (e.open_until > moment AND verdict <> 'gone') THEN
    open_until := e.open_until;
    RETURN;
  END IF;
  n := e.failures + 1;
  IF slow_seconds > 0 OR n >= 5 THEN
    open_until := moment + GREATEST(slow_seconds, LEAST(3600, 30 * 2 ^ LEAST(GREATEST(n - 5, 0), 7))) * interval '1 second';
    change := 'tripped';
  END IF;
  IF verdict = 'gone' OR e.failing_since < moment - interval '5 days' THEN
    change := 'disabled';
  END IF;
  UPDATE tenure.endpoints AS p
  SET failures = n, failing_since = COALESCE(p.failing_since, moment), open_until = log_delivery.open_until, probe_until = NULL,
      note = concat_ws(': ', 'answered ' || of_status, NULLIF(of_note, '')),
      state = CASE WHEN log_delivery.change = 'disabled' THEN 'disabled' ELSE p.state END
  WHERE p.id = of_endpoint;
END
$$;

-- The limit of the queue, unless somebody has set one: one slow endpoint keeps four slots at most.
CREATE FUNCTION tenure.begin_webhooks(of_queue text, per_key int) RETURNS boolean LANGUAGE sql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  INSERT INTO tenure.queues (queue, max_per_key) VALUES (of_queue, per_key) ON CONFLICT (queue) DO NOTHING RETURNING true
$$;

-- Forget webhooks and calls that are older than this, at most n of each. Four days are safe: the last attempt comes before.
CREATE FUNCTION tenure.keep_webhooks(retention_seconds float8, n int, OUT webhooks int, OUT deliveries int) LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  before uuid := tenure.id_at(statement_timestamp() - GREATEST(retention_seconds, 345600) * interval '1 second');
BEGIN
  DELETE FROM tenure.webhooks AS m WHERE m.id IN (SELECT o.id FROM tenure.webhooks AS o WHERE o.id < before ORDER BY o.id LIMIT n);
  GET DIAGNOSTICS webhooks = ROW_COUNT;
  DELETE FROM tenure.deliveries AS d WHERE (d.row_id, d.fence_token) IN (
    SELECT o.row_id, o.fence_token FROM tenure.deliveries AS o WHERE o.row_id < before ORDER BY o.row_id LIMIT n);
  GET DIAGNOSTICS deliveries = ROW_COUNT;
END
$$;
