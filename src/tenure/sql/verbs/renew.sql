-- renew: extend every lease of the list that is still current and not yet over
-- in: ids uuid[], generations bigint[], fences bigint[], lease_seconds float8[]
-- out: id, fence_token, ends_seconds, cancel_asked
-- why: touches nothing an index mentions, so a renewal is a HOT update. A lease that ran out is not revived: somebody may be about to take the row.
UPDATE tenure.live AS i
SET lease_expires_at = clock_timestamp() + lease.seconds * interval '1 second'
FROM unnest(:ids::uuid[], :generations::bigint[], :fences::bigint[], :lease_seconds::float8[]) AS lease (id, generation, fence, seconds)
WHERE i.id = lease.id
  AND i.status = 'processing'  -- implied: live_owned_or_free, only a processing row has a lease
  AND i.lease_generation = lease.generation
  AND i.fence_token = lease.fence
  AND i.lease_expires_at > clock_timestamp()
RETURNING i.id, i.fence_token, date_part('epoch', i.lease_expires_at), i.cancel_asked
