-- The nodes that have rows, and whether this is the coordinator; those that are to be emptied get no inbox.
SELECT n.groupid, n.nodename, n.nodeport, (SELECT g.groupid FROM pg_catalog.pg_dist_local_group AS g) AS here
FROM pg_catalog.pg_dist_node AS n
WHERE n.isactive AND n.noderole = 'primary' AND n.shouldhaveshards
ORDER BY n.groupid
