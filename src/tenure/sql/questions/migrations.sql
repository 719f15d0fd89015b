-- migrations: what has been applied to this schema, and with which text
-- in: (none)
-- out: version, name, checksum, kind
SELECT m.version, m.name, m.checksum, m.kind FROM tenure.migrations AS m ORDER BY m.version LIMIT 10000
