-- forget_inbox: lead no row to this inbox any more, and ask it nothing; it has no rows
-- in: inbox int
-- out: forgotten
WITH gone AS (DELETE FROM tenure_door.inboxes AS i WHERE i.group_id = :inbox::int RETURNING 1)
SELECT count(*)::int FROM gone
