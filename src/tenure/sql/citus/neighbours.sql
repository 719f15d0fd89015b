-- neighbours: every inbox that the door has ever led to but this one, and where it is
-- in: (none)
-- out: inbox, host (NULL: the cluster knows it no more), port
SELECT m.inbox, m.host, m.port FROM tenure_door.members() AS m WHERE m.inbox <> tenure_door.here() ORDER BY m.inbox
