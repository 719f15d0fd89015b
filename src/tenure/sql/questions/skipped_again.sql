-- skipped_again: events of a shard that were skipped and shall be applied after all
-- in: projection text, shard int, n int
-- out: position, stream, version, type, id, at, data, headers
SELECT j.position, j.stream, j.version, j.type, j.id, j.at, j.data::text, j.headers::text
FROM tenure.skipped AS k JOIN tenure.journal AS j ON j.position = k.position
WHERE k.projection = :projection
  AND k.shard = :shard::int
  AND k.again
ORDER BY k.position
LIMIT :n::int
