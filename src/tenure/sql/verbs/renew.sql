-- renew: extend every lease of the list that is still current and not yet over
-- in: ids uuid[], generations bigint[], fences bigint[], lease_seconds float8[]
-- out: id, fence_token, ends_seconds, cancel_asked
-- why: touches nothing an index mentions, so a renewal is a HOT update. A lease that ran out is not renewed: somebody may be
-- about to claim the row. A locked row is skipped, so that it cannot cost the others their leases. A lease that now ends sooner
-- than it did is listed for sweep to look at sooner.
WITH mine AS (
  SELECT i.id, lease.seconds, i.lease_expires_at AS ended_at
  FROM unnest(:ids::uuid[], :generations::bigint[], :fences::bigint[], :lease_seconds::float8[]) AS lease (id, generation, fence, seconds)
  JOIN tenure.live AS i ON i.id = lease.id
  WHERE i.status = 'processing'  -- implied: live_state, only a processing row has a lease
    AND i.lease_generation = lease.generation
    AND i.fence_token = lease.fence
    AND i.lease_expires_at > clock_timestamp()
  ORDER BY i.id
  FOR NO KEY UPDATE OF i SKIP LOCKED
), kept AS (
  UPDATE tenure.live AS i
  SET lease_expires_at = clock_timestamp() + mine.seconds * interval '1 second'
  FROM mine
  WHERE i.id = mine.id
  RETURNING i.id, i.fence_token, i.lease_expires_at, i.cancel_asked, i.claim_id, mine.ended_at
), listed AS (
  INSERT INTO tenure.claims (until, claim_id, ids)
  SELECT min(k.lease_expires_at), k.claim_id, array_agg(k.id) FROM kept AS k
  WHERE k.lease_expires_at < k.ended_at  -- implied: an entry too many is no harm
  GROUP BY k.claim_id
)
SELECT k.id, k.fence_token, date_part('epoch', k.lease_expires_at), k.cancel_asked FROM kept AS k
