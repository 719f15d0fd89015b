-- holding: is this lease current, and not yet over?
-- in: id uuid, generation bigint, fence bigint
-- out: seconds_left
SELECT date_part('epoch', i.lease_expires_at - clock_timestamp())
FROM tenure.live AS i
WHERE i.id = :id
  AND i.status = 'processing'  -- implied: live_state, only a processing row has a lease
  AND i.lease_generation = :generation
  AND i.fence_token = :fence
  AND i.lease_expires_at > clock_timestamp()
