-- originals: which of these events a replay can publish again: those that were published, and not by a replay
-- in: ids uuid[]
-- out: id
SELECT a.id
FROM tenure.archive AS a
WHERE a.id = ANY (:ids::uuid[])
  AND a.payload ->> 'type' IS NOT NULL
  AND a.payload ->> 'replay' IS NULL
ORDER BY a.id
LIMIT cardinality(:ids::uuid[])
