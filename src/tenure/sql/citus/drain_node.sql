-- drain_node: have Citus move every range of a node elsewhere, and place no more there
-- in: inbox int
-- out: host, port, drained
SELECT d.nodename, d.nodeport, pg_catalog.citus_drain_node(d.nodename, d.nodeport)::text
FROM pg_catalog.pg_dist_node AS d WHERE d.groupid = :inbox::int AND d.noderole = 'primary'
