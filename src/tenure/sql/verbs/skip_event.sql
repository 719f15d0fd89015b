-- skip_event: note an event that a projection could not apply, in the transaction that passes over it
-- in: projection text, shard int, position bigint, error text
-- out: n bigint
WITH noted AS (
  INSERT INTO tenure.skipped AS k (projection, position, shard, stream, type, error)
  SELECT :projection, j.position, :shard::int, j.stream, j.type, :error FROM tenure.journal AS j
  WHERE j.position = :position::bigint
  ON CONFLICT (projection, position, shard) DO UPDATE SET error = EXCLUDED.error, again = false, skipped_at = clock_timestamp()
  RETURNING k.position
)
SELECT count(*) FROM noted
