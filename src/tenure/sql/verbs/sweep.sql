-- sweep: end up to n attempts whose lease ran out: pending with backoff, or dead_letter when attempts are used up
-- in: n int, patience int (NULL: look at every row)
-- out: id, fence_token, next_status, next_at
-- why: needs no lease, because only leases that are over are touched. Locked rows are skipped, never waited for, so one
-- slow transaction cannot stop recovery; two sweeps at once are harmless.
WITH expired AS (
  SELECT i.id, i.lease_generation, i.fence_token
  FROM tenure.live AS i
  WHERE i.id = ANY (ARRAY(SELECT tenure.held(:patience::int)))
    AND i.status = 'processing'  -- implied: live_owned_or_free, only a processing row has a lease
    AND i.lease_expires_at <= clock_timestamp()
  ORDER BY i.id
  LIMIT :n
  FOR UPDATE SKIP LOCKED
), listed AS (
  SELECT array_agg(id) AS ids, array_agg(lease_generation) AS generations, array_agg(fence_token) AS fences,
         array_agg('lease expired'::text) AS errors
  FROM expired
)
SELECT ended.row_id, ended.token, ended.next_status, ended.next_at
FROM listed CROSS JOIN LATERAL tenure.end_attempts(listed.ids, listed.generations, listed.fences, 'expired', listed.errors, NULL) AS ended
