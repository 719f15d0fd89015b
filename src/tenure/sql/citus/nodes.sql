-- The inboxes behind the door, and where they are.
SELECT d.inbox, d.host, d.port FROM tenure_door.nodes() AS d
