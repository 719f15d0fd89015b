-- takers: how many nodes but this one may have ranges, and an inbox that workers know
-- in: inbox int
-- out: nodes
SELECT count(*)::int FROM pg_catalog.pg_dist_node AS d
JOIN tenure_door.nodes() AS n ON n.inbox = d.groupid AND n.host = d.nodename AND n.port = d.nodeport
WHERE d.shouldhaveshards
  AND d.groupid <> :inbox::int
