-- create_token: keep a new token for the web, by the hash of its secret
-- in: id text, name text, hash bytea, role text, queues text[] (NULL: all), reveal boolean, seconds float8, created_by text
-- out: id (none: the name was given before)
INSERT INTO tenure.tokens AS t (id, name, hash, role, queues, reveal, expires_at, created_by)
VALUES (:id, :name, :hash, :role, :queues::text[], :reveal, clock_timestamp() + make_interval(secs => :seconds), :created_by)  -- implied: its end need not be exact to the transaction
ON CONFLICT DO NOTHING
RETURNING t.id
