-- lock_free: lock those of some waiting, held or ended rows that nobody else has locked; the others are left out
-- in: ids uuid[]
-- out: id
-- why: a statement that would wait for one row has all those before it locked meanwhile, and a held row that stays locked
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
