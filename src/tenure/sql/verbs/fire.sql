-- fire: enqueue a row of a schedule now; when it is next due stays as it was, and a paused one fires all the same
-- in: name text
-- out: id
-- why: an operator's own tick. It has no idempotency key, so that it neither takes the place of a tick of cron nor of another click.
-- Where it rests, because its home is another inbox, it enqueues nothing: an operator runs it in all of them.
SELECT sent.id
FROM tenure.schedules AS s
CROSS JOIN LATERAL tenure.enqueue_many(
  kinds => ARRAY[s.kind],
  payloads => ARRAY[CASE WHEN s.tick_as IS NULL THEN s.payload
                         ELSE s.payload || jsonb_build_object(
                           s.tick_as, to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) END],
  partition_keys => ARRAY[s.partition_key],
  queues => ARRAY[s.queue],
  priorities => ARRAY[s.priority],
  ats => ARRAY[NULL::timestamptz],
  delays => ARRAY[0::float8],
  idempotency_keys => ARRAY[NULL::text],
  max_attempts => ARRAY[s.max_attempts],
  ordered => ARRAY[s.ordered],
  holds => ARRAY[false]
) AS sent (id, outcome)
WHERE s.name = :name
  AND s.next_at < '9999-01-01T00:00:00Z'
