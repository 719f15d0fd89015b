-- once: mark a named effect of a row as done, if the lease is current and nobody has marked it before
-- in: id uuid, generation bigint, fence bigint, effect text
-- out: held boolean, first boolean
-- why: the key is (row, effect), never the token: two tokens of one row must not both pass. The mark commits or rolls back
-- with the caller's transaction; a second caller waits for the first to end.
WITH holder AS (
  SELECT i.id, i.fence_token
  FROM tenure.live AS i
  WHERE i.id = :id
    AND i.status = 'processing'
    AND i.lease_generation = :generation
    AND i.fence_token = :fence
), marked AS (
  INSERT INTO tenure.effects (row_id, effect, fence_token)
  SELECT holder.id, :effect, holder.fence_token FROM holder
  ON CONFLICT (row_id, effect) DO NOTHING
  RETURNING row_id
)
SELECT EXISTS (SELECT FROM holder), EXISTS (SELECT FROM marked)
