-- append: append events to a stream in the caller's transaction, if its last version is the expected one
-- in: stream text, types text[], datas jsonb[], headers jsonb[], ids uuid[], expect bigint
-- out: last_version, last_position (NULL: nothing was appended, the stream is at last_version)
-- why: a function, so that a producer needs no right to the tables.
SELECT a.last_version, a.last_position
FROM tenure.append_events(:stream, :types::text[], :datas::jsonb[], :headers::jsonb[], :ids::uuid[], :expect::bigint) AS a
