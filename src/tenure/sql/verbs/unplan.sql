-- unplan: delete a schedule; the rows it enqueued stay
-- in: name text
-- out: name
DELETE FROM tenure.schedules AS s WHERE s.name = :name RETURNING s.name
