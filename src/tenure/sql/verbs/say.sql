-- say: add to what flows tell people, for those whose lease is current
-- in: ids uuid[], generations bigint[], fences bigint[], chunks text[]
-- out: id, unflushed
-- why: not flushed: what a crash of the server takes was for people to watch, the result of the step is recorded by itself.
WITH held AS MATERIALIZED (
  SELECT i.id, set_config('synchronous_commit', 'off', true) AS unflushed FROM tenure.live AS i
  WHERE i.id = ANY (:ids::uuid[])  -- implied: the tokens name their rows; this one walks the primary key
    AND i.status = 'processing'  -- implied: live_state, only a processing row has a lease
    AND ((i.id, i.lease_generation, i.fence_token) IN (SELECT l.id, l.generation, l.fence FROM unnest(:ids::uuid[], :generations::bigint[], :fences::bigint[]) AS l (id, generation, fence))) IS TRUE
    AND i.lease_expires_at > clock_timestamp()
), told AS (
  INSERT INTO tenure.said (row_id, chunk)
  SELECT c.id, c.chunk FROM unnest(:ids::uuid[], :chunks::text[]) AS c (id, chunk)
  WHERE (c.id IN (SELECT held.id FROM held)) IS TRUE
)
SELECT held.id, held.unflushed FROM held
