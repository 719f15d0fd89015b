-- leave: remove this worker from the registry; it has nothing left to do
-- in: worker text
-- out: id
DELETE FROM tenure.workers AS w WHERE w.id = :worker RETURNING w.id
