-- originals: which of these events a replay can publish again: those that were published, and the first copy of one that is no longer kept
-- in: ids uuid[]
-- out: id
SELECT a.id
FROM tenure.archive AS a
WHERE a.id = ANY (:ids::uuid[])
  AND a.payload ->> 'type' IS NOT NULL
  AND (a.payload ->> 'replay' IS NULL OR NOT EXISTS (SELECT FROM tenure.archive AS o WHERE o.id = CASE WHEN a.kind LIKE 'outbox:%' THEN (a.payload ->> 'id')::uuid END))
  AND NOT EXISTS (SELECT FROM tenure.archive AS c WHERE c.id = ANY (:ids::uuid[]) AND c.id < a.id AND c.payload ->> 'id' = a.payload ->> 'id')
ORDER BY a.id
LIMIT cardinality(:ids::uuid[])
