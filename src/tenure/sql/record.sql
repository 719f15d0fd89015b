-- record: remember that a migration was applied, and with which text
INSERT INTO tenure.migrations (version, name, checksum, kind) VALUES (:'version', :'name', :'checksum', :'kind');
