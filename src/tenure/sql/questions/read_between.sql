-- read_between: events after a position and up to a horizon that was asked for before, in order
-- in: after bigint, upto bigint, like_types text[], shard int, shards int, n int
-- out: position, stream, version, type, id, at, data, headers
-- why: a later statement than the one that asked for the horizon: what was committed in between must be seen.
SELECT e.position, e.stream, e.version, e.type, e.id, e.at, e.data, e.headers
FROM tenure.read_between(:after::bigint, :upto::bigint, :like_types::text[], :shard::int, :shards::int, :n::int) AS e
