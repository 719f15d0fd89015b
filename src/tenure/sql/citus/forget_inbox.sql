-- forget_inbox: lead no row to this inbox any more, and ask it nothing; it has no rows
-- in: inbox int
-- out: inbox (no row: the door did not lead there)
DELETE FROM tenure_door.inboxes AS i WHERE i.group_id = :inbox::int RETURNING i.group_id
