-- progress: note how far a job has come, if its lease is current
-- in: id uuid, generation bigint, fence bigint, share float8, note text
-- out: n int, unflushed
-- why: changed in place, and not flushed: what a crash of the server takes is told again.
WITH holder AS (
  SELECT i.id, set_config('synchronous_commit', 'off', true) AS unflushed FROM tenure.live AS i
  WHERE i.id = :id
    AND i.status = 'processing'
    AND i.lease_generation = :generation
    AND i.fence_token = :fence
), noted AS (
  INSERT INTO tenure.progress AS p (row_id, at, share, note)
  SELECT holder.id, clock_timestamp(), :share::float8, :note::text FROM holder  -- implied: people read the time, to the second
  ON CONFLICT (row_id) DO UPDATE SET at = EXCLUDED.at, share = EXCLUDED.share, note = EXCLUDED.note
)
SELECT 1, holder.unflushed FROM holder
