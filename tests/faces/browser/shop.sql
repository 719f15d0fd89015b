-- The past of the shop: 100,000 rows, as claims, ends and a lost race have left them.
CREATE FUNCTION new_id_at(t timestamptz) RETURNS uuid LANGUAGE sql VOLATILE AS $$
  SELECT encode(overlay(uuid_send(gen_random_uuid())
                        placing substring(int8send(floor(extract(epoch FROM t) * 1000)::bigint) from 3) from 1 for 6), 'hex')::uuid
$$;
CREATE FUNCTION kind_of(n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT ('{send_receipt,charge_card,ship_order,resize_image,sync_crm}'::text[])[1 + n % 5]
$$;
CREATE FUNCTION queue_of(n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT ('{default,mail,billing}'::text[])[1 + n % 3]
$$;

-- 75,000 completed, over the last twelve hours
INSERT INTO archive (id, created_at, available_at, claimed_at, completed_at, lease_generation, fence_token, attempts, max_attempts,
                     priority, ordered, kind, queue, partition_key, finished_by, payload)
SELECT new_id_at(t), t, t, t + interval '80 ms', t + interval '300 ms', 1, n, 1, 5, 0, false, kind_of(n), queue_of(n), 'order:' || n,
       'shop-7f9c-' || 1 + n % 3, jsonb_build_object('order_id', n, 'amount', n % 90 + 0.5)
FROM generate_series(1, 75000) AS n, LATERAL (SELECT clock_timestamp() - n * interval '0.6 s') AS of (t);

-- 20,500 runnable, 2,000 waiting for their time
INSERT INTO live (created_at, available_at, kind, queue, partition_key, payload)
SELECT clock_timestamp() - interval '41 s',
       clock_timestamp() + CASE WHEN n > 20500 THEN interval '3 h' ELSE interval '-41 s' END,
       kind_of(n), queue_of(n), 'order:' || 100000 + n, jsonb_build_object('order_id', 100000 + n)
FROM generate_series(1, 22500) AS n;

-- 40 held
INSERT INTO live (created_at, available_at, kind, queue, partition_key, payload, status, claimed_by, claimed_at, lease_expires_at,
                  claim_id, lease_generation, fence_token, attempts)
SELECT clock_timestamp() - interval '70 s', clock_timestamp() - interval '70 s', kind_of(n), queue_of(n), 'order:' || 200000 + n,
       jsonb_build_object('order_id', 200000 + n), 'processing', 'shop-7f9c-' || 1 + n % 3, clock_timestamp() - n * interval '0.5 s',
       clock_timestamp() + interval '1 h' - n * interval '45 s', n, 1, 900000 + n, 1
FROM generate_series(1, 40) AS n;

-- 2,458 dead: of ten, seven dead letters, two failed, one cancelled
INSERT INTO dead (id, seq, created_at, available_at, claimed_at, finished_at, lease_generation, fence_token, attempts, max_attempts,
                  priority, ordered, hold, status, kind, queue, partition_key, finished_by, payload, last_error)
SELECT new_id_at(t), n, t, t, t, t + interval '4 s', 5, 800000 + n, 5, 5, 0, false, false,
       CASE WHEN n % 10 < 7 THEN 'dead_letter' WHEN n % 10 < 9 THEN 'failed' ELSE 'cancelled' END,
       kind_of(n % 3), 'mail', 'order:' || 300000 + n, 'shop-7f9c-1', jsonb_build_object('order_id', 300000 + n),
       CASE WHEN n % 10 < 9 THEN (ARRAY['ConnectionError: mail.example.test refused the connection', 'KeyError: ''order_id''',
                                        'TimeoutError: the bank did not answer within 10 s'])[1 + n % 3] END
FROM generate_series(1, 2458) AS n, LATERAL (SELECT clock_timestamp() - n * interval '9 s') AS of (t);

-- Two workers at work, one that drains, one that died
INSERT INTO workers (id, status, last_seen_at, started_at, metadata)
SELECT w.id, w.status, clock_timestamp() - w.seen, clock_timestamp() - interval '5 h',
       jsonb_build_object('host', 'shop-7f9c', 'pid', 4100 + w.n, 'version', '0.1.0', 'slots', 20, 'slots_used', 14 - w.n, 'wakeup', 'listen')
       || '{"queues": ["default", "mail", "billing"], "kinds": ["send_receipt", "charge_card"]}'
FROM (VALUES (1, 'shop-7f9c-1', 'alive', interval '1 s'), (2, 'shop-7f9c-2', 'alive', interval '2 s'),
             (3, 'shop-7f9c-3', 'draining', interval '1 s'), (4, 'shop-6d11-4', 'dead', interval '11 min')) AS w (n, id, status, seen);

-- A day of history
INSERT INTO tally (at, queue, acquired, reclaimed, renewed, expired, lost, stale_writes_blocked, completed, retried, released, failed,
                   dead_lettered, cancelled, waits, runs)
SELECT date_bin('10 seconds', now() - n * interval '10 s', 'epoch'), 'default', 52 + n % 9, (n % 90 = 7)::int, 14,
       (n % 90 = 7)::int, (n % 180 = 9)::int, (n % 120 = 8)::int, (48 + 20 * sin(n / 40.0))::int, n % 4, 0, (n % 30 = 3)::int,
       (n % 25 = 4)::int, 0, '{0,1,4,12,20,9,3,1,1,0,0,0,0,0,0,0,0}', '{0,0,2,9,14,18,6,2,0,0,0,0,0,0,0,0,0}'
FROM generate_series(3, 8640) AS n;

-- What waited, by queue
INSERT INTO tally (at, queue, acquired, reclaimed, renewed, expired, lost, stale_writes_blocked, completed, retried, released, failed,
                   dead_lettered, cancelled, waits, runs, due)
SELECT date_bin('10 seconds', now() - n * interval '10 s', 'epoch'), q.queue, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, array_fill(0, '{17}'),
       array_fill(0, '{17}'), GREATEST(0, q.most * (1 + sin(n / q.pace)))::int
FROM generate_series(1, 8640) AS n, (VALUES ('', 0, 1), ('default', 2400, 30.0), ('mail', 3100, 55.0), ('billing', 3300, 90.0)) AS q (queue, most, pace)
ON CONFLICT (at, queue) DO UPDATE SET due = EXCLUDED.due;

-- The race for order:9182: its first holder went silent, its second one failed, its third one has it; the first one's write came late.
INSERT INTO live (kind, queue, partition_key, payload, ordered, idempotency_key, headers, max_attempts, created_at, available_at, status,
                  claimed_by, claimed_at, claim_id, lease_expires_at, lease_generation, fence_token, attempts, last_error)
VALUES ('charge_card', 'billing', 'order:9182',
        '{"order_id": 12345678901234567890, "amount": 49.90, "note": "grüß \"Gott\"", "lines": [{"sku": "A-1", "n": 2}], "gift": true,
          "password": "hunter2"}',
        true, 'charge-9182', '{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}', 8,
        clock_timestamp() - interval '372 s', clock_timestamp() - interval '50 s', 'processing', 'shop-7f9c-3',
        clock_timestamp() - interval '48 s', 1, clock_timestamp() + interval '55 min', 3, 281474976710999, 3,
        E'Traceback (most recent call last):\n  File "/srv/shop/bank.py", line 88, in charge\n    return bank.post(order, timeout=10)\n'
        'TimeoutError: the bank did not answer within 10 s');
INSERT INTO live (kind, queue, partition_key, payload, ordered, created_at)
VALUES ('charge_card', 'billing', 'order:9182', '{}', true, clock_timestamp() - interval '60 s');
INSERT INTO heads (queue, partition_key, bucket, from_seq, run_from, run_to)
SELECT queue, partition_key, bucket(partition_key), seq, seq, seq FROM live WHERE idempotency_key = 'charge-9182';
INSERT INTO idempotency (key, row_id, content_hash) SELECT 'charge-9182', id, '' FROM live WHERE idempotency_key = 'charge-9182';
INSERT INTO effects (row_id, effect, fence_token) SELECT id, 'receipt', 281474976710755 FROM live WHERE idempotency_key = 'charge-9182';
INSERT INTO attempts (row_id, fence_token, lease_generation, worker, claimed_at, ended_at, outcome, error)
SELECT i.id, a.fence, a.generation, a.worker, clock_timestamp() - a.began, clock_timestamp() - a.ended, a.outcome,
       CASE a.outcome WHEN 'retried' THEN i.last_error END
FROM live AS i, (VALUES (281474976710701, 1, 'shop-6d11-4', interval '370 s', interval '280 s', 'expired'),
                        (281474976710755, 2, 'shop-7f9c-2', interval '276 s', interval '240 s', 'retried'))
                AS a (fence, generation, worker, began, ended, outcome)
WHERE i.idempotency_key = 'charge-9182';
INSERT INTO refusals (at, row_id, worker, verb, kind, stale_token, current_token, reason)
SELECT clock_timestamp() - interval '1290 s', id, 'shop-7f9c-2', 'retry', kind, 1, NULL, 'token_mismatch'
FROM archive WHERE partition_key = 'order:2146';
INSERT INTO refusals (at, row_id, worker, verb, kind, stale_token, current_token, reason)
SELECT clock_timestamp() - interval '252 s', id, 'shop-6d11-4', 'complete', kind, 1, 2, 'token_mismatch'
FROM live WHERE idempotency_key = 'charge-9182';
ANALYZE live, archive, dead, attempts, workers, tally, refusals;
