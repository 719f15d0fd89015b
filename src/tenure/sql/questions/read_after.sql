-- read_after: events after a position, in order, as far as no earlier one is still to come
-- in: after bigint, like_types text[], n int
-- out: position, stream, version, type, id, at, data, headers
-- why: the function asks for the horizon in one statement and reads in the next; in one, it would miss events.
SELECT e.position, e.stream, e.version, e.type, e.id, e.at, e.data, e.headers
FROM tenure.read_after(:after::bigint, :like_types::text[], :n::int) AS e
