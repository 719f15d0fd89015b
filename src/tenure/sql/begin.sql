-- begin: the schema and the record of what was applied to it; safe to run again
CREATE SCHEMA IF NOT EXISTS tenure;
CREATE TABLE IF NOT EXISTS tenure.migrations (
  version    int         NOT NULL PRIMARY KEY,
  name       text        NOT NULL,
  checksum   text        NOT NULL,
  kind       text        NOT NULL CHECK (kind IN ('expand', 'contract')),
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
