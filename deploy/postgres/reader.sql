-- The login of Grafana, for psql: whoever sends SQL to the boards' datasource reads, and no more. Safe to run again.
\set ON_ERROR_STOP on
\getenv password READER_PASSWORD
SELECT to_regrole('grafana') IS NULL AS missing \gset
\if :missing
CREATE ROLE grafana;
\endif
ALTER ROLE grafana LOGIN PASSWORD :'password';
ALTER ROLE grafana SET default_transaction_read_only = on;
ALTER ROLE grafana SET statement_timeout = '30s';
GRANT tenure_readonly TO grafana;
