-- indexes: every index of the schema, whether it can be used, and its size
-- in: (none)
-- out: table_name, name, usable, bytes
SELECT t.relname::text, i.relname::text, x.indisvalid AND x.indisready, pg_relation_size(i.oid)
FROM pg_catalog.pg_index AS x
JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
JOIN pg_catalog.pg_class AS t ON t.oid = x.indrelid
WHERE t.relnamespace = (SELECT c.relnamespace FROM pg_catalog.pg_class AS c WHERE c.oid = 'tenure.live'::regclass)
ORDER BY 1, 2
LIMIT 10000
