-- Is this server part of a Citus cluster, and can a transaction of it have several nodes?
SELECT (SELECT e.extversion FROM pg_catalog.pg_extension AS e WHERE e.extname = 'citus') AS version,
       to_regclass('pg_catalog.pg_dist_node') IS NOT NULL AS known,
       current_setting('max_prepared_transactions')::int AS prepared,
       to_regclass('tenure_door.keys') IS NOT NULL AS door
