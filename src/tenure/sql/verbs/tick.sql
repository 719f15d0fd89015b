-- tick: fire a schedule: move next_at from what was read to what follows, and enqueue the ticks between, both or neither
-- in: name text, cron text, zone text, expected timestamptz, next_at timestamptz, ticks timestamptz[]
-- out: id, outcome (enqueued, duplicate, conflict; NULL without ticks), tick
-- why: of all who saw it due one moves next_at; the others find another value there, enqueue nothing and get no row.
-- next_at was worked out from cron and zone, so both must still be the ones that were read. The idempotency key keeps
-- a tick single where next_at came back to it: a schedule changed in the very moment it fired.
WITH won AS (
  UPDATE tenure.schedules AS s
  SET next_at = :next_at,
      last_at = COALESCE((SELECT max(t.tick) FROM unnest(:ticks::timestamptz[]) AS t (tick)), s.last_at)
  WHERE s.name = :name
    AND s.next_at = :expected
    AND s.cron = :cron
    AND s.zone = :zone
    AND NOT s.paused
  RETURNING s.name, s.kind, s.payload, s.tick_as, s.partition_key, s.queue, s.priority, s.max_attempts, s.ordered,
            ARRAY[cardinality(:ticks::timestamptz[])] AS n,
            ARRAY(SELECT to_char(t.tick AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
                  FROM unnest(:ticks::timestamptz[]) WITH ORDINALITY AS t (tick, n) ORDER BY t.n) AS times
)
SELECT sent.id, sent.outcome, (:ticks::timestamptz[])[sent.n]
FROM won AS w
LEFT JOIN LATERAL tenure.enqueue_many(
  kinds => array_fill(w.kind, w.n),
  payloads => ARRAY(SELECT CASE WHEN w.tick_as IS NULL THEN w.payload ELSE w.payload || jsonb_build_object(w.tick_as, t.at) END
                    FROM unnest(w.times) WITH ORDINALITY AS t (at, n) ORDER BY t.n),
  partition_keys => array_fill(w.partition_key, w.n),
  queues => array_fill(w.queue, w.n),
  priorities => array_fill(w.priority, w.n),
  ats => array_fill(NULL::timestamptz, w.n),
  delays => array_fill(0::float8, w.n),
  idempotency_keys => ARRAY(SELECT 'schedule:' || w.name || ':' || t.at
                            FROM unnest(w.times) WITH ORDINALITY AS t (at, n) ORDER BY t.n),
  max_attempts => array_fill(w.max_attempts, w.n),
  ordered => array_fill(w.ordered, w.n),
  holds => array_fill(false, w.n)
) WITH ORDINALITY AS sent (id, outcome, n) ON true
ORDER BY sent.n
