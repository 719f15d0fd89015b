-- lock_free: lock those of these rows that nobody else has locked; the others are left out
-- in: ids uuid[]
-- out: id
-- why: a statement that waits for one row keeps all rows before it locked meanwhile, and the lease of a locked row
-- cannot be renewed.
WITH live AS (
  SELECT i.id FROM tenure.live AS i
  WHERE i.id = ANY (:ids::uuid[])
  ORDER BY i.id
  FOR UPDATE SKIP LOCKED
), ended AS (
  SELECT d.id FROM tenure.dead AS d
  WHERE d.id = ANY (:ids::uuid[])
  ORDER BY d.id
  FOR UPDATE SKIP LOCKED
)
SELECT live.id FROM live
UNION ALL
SELECT ended.id FROM ended
