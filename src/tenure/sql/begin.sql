-- begin: the schema and the record of what was applied to it; safe to run again
SET LOCAL search_path = pg_catalog, pg_temp;  -- nobody's functions but the server's
DO $make$
BEGIN
  -- Asked first: CREATE SCHEMA IF NOT EXISTS wants the right to create schemas even where one exists.
  IF to_regnamespace('tenure') IS NULL THEN
    CREATE SCHEMA tenure;
  END IF;
END
$make$;
CREATE TABLE IF NOT EXISTS tenure.migrations (
  version    int         NOT NULL PRIMARY KEY,
  name       text        NOT NULL,
  checksum   text        NOT NULL,
  kind       text        NOT NULL CHECK (kind IN ('expand', 'contract')),
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
