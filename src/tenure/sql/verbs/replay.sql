-- replay: publish events again that a broker has confirmed before: new rows with the same event id, in the order in which those were sent
-- in: ids uuid[], n bigint (which replay: the broker must not take them for the first ones)
-- out: id
-- why: what is encrypted cannot be changed here and is left out, and so is what a replay has made: its original is there.
INSERT INTO tenure.live (id, kind, queue, partition_key, payload, priority, max_attempts, ordered, hold, headers)
SELECT tenure.new_id(), a.kind, a.queue, a.partition_key,
       a.payload || jsonb_build_object('id', a.id, 'replay', :n::bigint),
       a.priority, a.max_attempts, a.ordered, a.ordered, a.headers
FROM tenure.archive AS a
WHERE a.id = ANY (:ids::uuid[])
  AND a.kind LIKE 'outbox:%'
  AND a.payload ->> 'type' IS NOT NULL
  AND a.payload ->> 'replay' IS NULL
ORDER BY a.completed_at, a.id
RETURNING id
