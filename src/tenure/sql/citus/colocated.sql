-- Do the ranges of the door stay with those of this table?
SELECT (SELECT p.colocationid FROM pg_catalog.pg_dist_partition AS p WHERE p.logicalrelid = to_regclass(:'colocate_with'))
     = (SELECT p.colocationid FROM pg_catalog.pg_dist_partition AS p WHERE p.logicalrelid = 'tenure_door.keys'::regclass)
