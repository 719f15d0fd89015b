-- gets_ranges: may Citus place ranges on the node of this inbox?
-- in: inbox int
-- out: yes
SELECT bool_or(d.shouldhaveshards) FROM pg_catalog.pg_dist_node AS d WHERE d.groupid = :inbox::int AND d.noderole = 'primary'
