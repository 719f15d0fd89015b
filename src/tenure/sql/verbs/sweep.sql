-- sweep: end up to n attempts whose lease ran out: pending with backoff, or dead_letter when attempts are used up
-- in: n int, from_until float8 (epoch seconds: what is listed before it is gone)
-- out: id, fence_token, next_status, next_at
-- why: needs no lease, because only leases that are over are touched. It reads the list of claims, and of it what is due to be
-- looked at: what was held is listed again for when its lease ends now, what has ended is forgotten. Locked rows are skipped, and
-- runs with one in them, never waited for, so one slow transaction cannot stop recovery; two sweeps at once are harmless. Nothing is listed for a time
-- that is past: a floor that somebody knows stays one.
WITH looked_at AS (
  SELECT c.ctid, c.claim_id, c.ids
  FROM tenure.claims AS c
  WHERE c.until >= tenure.since(:from_until)  -- implied: a floor only saves work
    AND c.until <= statement_timestamp()  -- implied: only spares the look at the others; their leases decide below
  ORDER BY c.until
  LIMIT 20000
  FOR UPDATE SKIP LOCKED
), held AS MATERIALIZED (
  SELECT l.claim_id, r.id, r.lease_expires_at
  FROM looked_at AS l
  CROSS JOIN LATERAL (
    SELECT i.id, i.lease_expires_at FROM tenure.live AS i
    WHERE i.id = ANY (l.ids)  -- implied: the claim has no others; this one walks the primary key
      AND i.claim_id = l.claim_id
      AND i.status = 'processing'  -- implied: live_state, only a processing row has a claim
  ) AS r
), expired AS (
  SELECT i.id, i.lease_generation, i.fence_token
  FROM tenure.live AS i
  WHERE i.id = ANY (ARRAY(SELECT h.id FROM held AS h))
    AND i.status = 'processing'  -- implied: live_state, only a processing row has a lease
    AND i.lease_expires_at <= clock_timestamp()
  ORDER BY i.id
  LIMIT :n
  FOR UPDATE SKIP LOCKED
), listed AS (
  SELECT array_agg(id) AS ids, array_agg(lease_generation) AS generations, array_agg(fence_token) AS fences,
         array_agg('lease expired'::text) AS errors
  FROM expired
), ended AS MATERIALIZED (
  SELECT e.row_id, e.token, e.next_status, e.next_at
  FROM listed CROSS JOIN LATERAL tenure.end_attempts(listed.ids, listed.generations, listed.fences, 'expired', listed.errors, NULL, false) AS e
), forgotten AS (
  DELETE FROM tenure.claims AS c WHERE c.ctid = ANY (ARRAY(SELECT l.ctid FROM looked_at AS l))
), listed_again AS (
  INSERT INTO tenure.claims (until, claim_id, ids)
  SELECT GREATEST(min(h.lease_expires_at), statement_timestamp()), h.claim_id, array_agg(h.id) FROM held AS h  -- implied: a sweep is one short transaction
  WHERE h.id NOT IN (SELECT e.row_id FROM ended AS e)  -- implied: a row that has ended is not held when it is looked at again
  GROUP BY h.claim_id
)
SELECT ended.row_id, ended.token, ended.next_status, ended.next_at FROM ended
