-- Which functions of the door Citus runs on the node of their key.
SELECT p.proname FROM pg_catalog.pg_dist_object AS o
JOIN pg_catalog.pg_proc AS p ON p.oid = o.objid
WHERE o.classid = 'pg_catalog.pg_proc'::regclass AND p.pronamespace = 'tenure_door'::regnamespace AND o.force_delegation
