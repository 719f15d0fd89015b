-- sweep_pages: the same for every row on some pages of the hot table, whether a claim lists it or not
-- in: first bigint, pages bigint, n int
-- out: id, fence_token, next_status, next_at
-- why: the net under sweep: rows claimed before claims were listed, or changed by hand. Page by page, so that no piece takes long.
WITH expired AS (
  SELECT i.id, i.lease_generation, i.fence_token
  FROM tenure.live AS i
  WHERE i.ctid > format('(%s,0)', :first::bigint)::tid
    AND i.ctid < format('(%s,0)', LEAST(:first::bigint + :pages::bigint, 4294967295))::tid
    AND i.status = 'processing'  -- implied: live_state, only a processing row has a lease
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
FROM listed CROSS JOIN LATERAL tenure.end_attempts(listed.ids, listed.generations, listed.fences, 'expired', listed.errors, NULL, false) AS ended
