-- after: what is printed from a migration on must not run where that one is not the last: it would leave a hole
SET LOCAL search_path = pg_catalog, pg_temp;  -- nobody's functions but the server's
DO $after$
DECLARE
  at int := (SELECT count(*) FROM tenure.migrations);
BEGIN
  IF at <> :'version' THEN
    RAISE EXCEPTION 'the schema is at migration %, not %: print it again with --from %', at, :'version', at;
  END IF;
END
$after$;
