-- mark: add to a line of the audit how many rows were changed, and whether that was all
-- in: action bigint, rows bigint, done boolean
-- out: id
UPDATE tenure.audit AS a
SET rows = a.rows + :rows::bigint,
    done_at = CASE WHEN :done THEN clock_timestamp() END
WHERE a.id = :action
  AND a.done_at IS NULL
RETURNING a.id
