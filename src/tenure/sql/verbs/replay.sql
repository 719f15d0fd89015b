-- replay: publish events again that a broker has confirmed before: new rows with the same event id, in the order in which those were sent
-- in: ids uuid[], n bigint (which replay: the broker must not take them for the first ones)
-- out: id
-- why: what is encrypted cannot be changed here and is left out, and so is what a replay has made while its original, or an earlier copy of those asked for, is there.
-- They go to the queue that the outbox has now: nobody may take the one before.
INSERT INTO tenure.live (id, kind, queue, partition_key, payload, priority, max_attempts, ordered, hold, headers)
SELECT tenure.new_id(), a.kind, COALESCE((SELECT d.queue FROM tenure.declared(a.kind) AS d LIMIT 1), a.queue), a.partition_key,
       a.payload || jsonb_build_object('id', COALESCE(a.payload ->> 'id', a.id::text), 'replay', :n::bigint),
       a.priority, a.max_attempts, a.ordered, a.ordered, a.headers
FROM tenure.archive AS a
WHERE a.id = ANY (:ids::uuid[])
  AND a.kind LIKE 'outbox:%'
  AND a.payload ->> 'type' IS NOT NULL
  AND (a.payload ->> 'replay' IS NULL OR NOT EXISTS (SELECT FROM tenure.archive AS o WHERE o.id = CASE WHEN a.kind LIKE 'outbox:%' THEN (a.payload ->> 'id')::uuid END))
  AND NOT EXISTS (SELECT FROM tenure.archive AS c WHERE c.id = ANY (:ids::uuid[]) AND c.id < a.id AND c.payload ->> 'id' = a.payload ->> 'id')
ORDER BY a.completed_at, a.id
RETURNING id
