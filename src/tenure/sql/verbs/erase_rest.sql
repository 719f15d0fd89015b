-- erase_rest: erase what retention has left of rows that are gone: tape, effects, results, steps and calls by their ids, and one idempotency key
-- in: ids uuid[], idempotency_key text
-- out: n bigint
-- why: a key outlives its row, so that a late duplicate is known. What belongs to a row that still exists is not touched: erase
-- takes it with the row.
WITH tape AS (
  DELETE FROM tenure.attempts AS t
  WHERE t.row_id = ANY (:ids::uuid[])
    AND NOT EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = t.row_id)
  RETURNING t.row_id
), refused AS (
  DELETE FROM tenure.refusals AS r
  WHERE r.row_id = ANY (:ids::uuid[])
    AND NOT EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = r.row_id)
  RETURNING r.row_id
), marks AS (
  DELETE FROM tenure.effects AS e
  WHERE e.row_id = ANY (:ids::uuid[])
    AND NOT EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = e.row_id)
  RETURNING e.row_id
), valued AS (
  DELETE FROM tenure.results AS r
  WHERE r.row_id = ANY (:ids::uuid[])
    AND NOT EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = r.row_id)
  RETURNING r.row_id
), noted AS (
  DELETE FROM tenure.progress AS p
  WHERE p.row_id = ANY (:ids::uuid[])
    AND NOT EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = p.row_id)
  RETURNING p.row_id
), steps AS (
  DELETE FROM tenure.steps AS s
  WHERE s.row_id = ANY (:ids::uuid[])
    AND NOT EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = s.row_id)
  RETURNING s.row_id
), signals AS (
  DELETE FROM tenure.signals AS g
  WHERE g.row_id = ANY (:ids::uuid[])
    AND NOT EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = g.row_id)
  RETURNING g.row_id
), once AS (
  DELETE FROM tenure.signals_once AS o
  WHERE o.row_id = ANY (:ids::uuid[])
    AND NOT EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = o.row_id)
  RETURNING o.row_id
), shown AS (
  DELETE FROM tenure.shown AS v
  WHERE v.row_id = ANY (:ids::uuid[])
    AND NOT EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = v.row_id)
  RETURNING v.row_id
), called AS (
  DELETE FROM tenure.deliveries AS c
  WHERE c.row_id = ANY (:ids::uuid[])
    AND NOT EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = c.row_id)
  RETURNING c.row_id
), said AS (
  DELETE FROM tenure.said AS t
  WHERE t.row_id = ANY (:ids::uuid[])
    AND NOT EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = t.row_id)
  RETURNING t.row_id
), keys AS (
  DELETE FROM tenure.idempotency AS k
  WHERE k.key = :idempotency_key
    AND NOT EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = k.row_id)
  RETURNING k.row_id
)
SELECT (SELECT count(*) FROM tape) + (SELECT count(*) FROM refused) + (SELECT count(*) FROM marks) + (SELECT count(*) FROM keys)
       + (SELECT count(*) FROM valued) + (SELECT count(*) FROM noted) + (SELECT count(*) FROM steps) + (SELECT count(*) FROM signals)
       + (SELECT count(*) FROM once) + (SELECT count(*) FROM shown) + (SELECT count(*) FROM called) + (SELECT count(*) FROM said)
