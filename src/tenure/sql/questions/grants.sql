-- grants: whether roles are in use here, and whether they were granted since the last migration
-- in: (none)
-- out: used, current, open_to_all
-- why: a migration that replaces a function makes it run with its caller's rights again, until the roles are granted anew.
SELECT bool_or(p.proname = 'enqueue_many' AND EXISTS (
         SELECT FROM pg_catalog.aclexplode(p.proacl) AS a WHERE a.grantee NOT IN (0, p.proowner))),
       bool_and(p.prosecdef OR p.proname NOT IN ('enqueue_one', 'enqueue_keyed', 'enqueue_many', 'keep_archive')),
       count(*) FILTER (WHERE p.proacl IS NULL
                           OR EXISTS (SELECT FROM pg_catalog.aclexplode(p.proacl) AS a WHERE a.grantee = 0))::int
FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = (SELECT c.relnamespace FROM pg_catalog.pg_class AS c WHERE c.oid = 'tenure.live'::regclass)
LIMIT 1
