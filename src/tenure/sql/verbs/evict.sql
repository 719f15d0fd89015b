-- evict: end the attempts of workers that are dead because their session was gone for longer than the grace
-- in: grace_seconds float8, n int
-- out: id, fence_token, next_status, next_at
-- why: their leases have not run out, but nobody uses them: the session ended, and the worker had half of the grace to
-- come back or to stop its handlers by itself. If it writes all the same, its token is refused.
-- Backoff counts from when the session was gone: the wait after a first failure is over by now.
WITH gone AS (
  SELECT w.id, w.gone_at FROM tenure.workers AS w
  WHERE w.status = 'dead'
    AND w.presence IS NOT NULL  -- implied: nothing is left of the others; spares the look at every held row
    AND w.gone_at < clock_timestamp() - :grace_seconds * interval '1 second'
), theirs AS (
  SELECT i.id, i.claimed_by FROM tenure.live AS i
  JOIN gone ON gone.id = i.claimed_by
  WHERE i.id = ANY (ARRAY(SELECT tenure.held() WHERE EXISTS (SELECT FROM gone)))  -- implied: the join; spares the look at every row
), left_behind AS (
  SELECT i.id, i.lease_generation, i.fence_token,
         GREATEST(0, date_part('epoch', tenure.backoff(i.attempts) - (clock_timestamp() - gone.gone_at))) AS delay  -- implied: too long by the age of a transaction of its own
  FROM tenure.live AS i
  JOIN gone ON gone.id = i.claimed_by
  WHERE i.id = ANY (ARRAY(SELECT theirs.id FROM theirs))  -- implied: as above
  ORDER BY i.id
  LIMIT :n
  FOR UPDATE OF i SKIP LOCKED
), listed AS (
  SELECT array_agg(id) AS ids, array_agg(lease_generation) AS generations, array_agg(fence_token) AS fences,
         array_agg('its worker is gone'::text) AS errors, array_agg(delay) AS delays
  FROM left_behind
), settled AS (
  -- Nothing left of this worker: not to be looked at again.
  UPDATE tenure.workers AS w SET presence = NULL FROM gone
  WHERE w.id = gone.id
    AND NOT EXISTS (SELECT FROM theirs
                    WHERE theirs.claimed_by = w.id)  -- implied: without it each waits for the rows of all; only later
)
SELECT ended.row_id, ended.token, ended.next_status, ended.next_at
FROM listed CROSS JOIN LATERAL tenure.end_attempts(listed.ids, listed.generations, listed.fences, 'expired', listed.errors, listed.delays, false) AS ended
