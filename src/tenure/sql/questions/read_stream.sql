-- read_stream: events of one stream after a version, in order
-- in: stream text, after bigint, n int
-- out: position, stream, version, type, id, at, data, headers
-- why: within a stream the version is the order, and it has no gaps: no horizon is needed.
SELECT j.position, j.stream, j.version, j.type, j.id, j.at, j.data::text, j.headers::text
FROM tenure.journal AS j
WHERE j.stream = :stream
  AND j.version > :after::bigint
ORDER BY j.version
LIMIT :n::int
