-- Note that this node has an inbox.
INSERT INTO tenure_door.inboxes (group_id) VALUES (:'group') ON CONFLICT (group_id) DO NOTHING
