-- release_held: take rows from their holders and make them pending at once; the attempt does not count
-- in: ids uuid[], reason text
-- out: id, told, woken
-- why: from here on the holder's token is stale and every write of it is refused. A note makes it renew, which shows it
-- that the row is lost. A locked row is skipped: its holder may be about to settle it, and must not wait for this.
WITH held AS (
  SELECT i.id, i.lease_generation, i.fence_token, i.claimed_by, i.queue, tenure.bucket(COALESCE(i.partition_key, i.id::text)) AS bucket
  FROM tenure.live AS i
  WHERE i.id = ANY (:ids::uuid[])
    AND i.status = 'processing'  -- implied: take_back asks again; this one spares the others the lock
  ORDER BY i.id
  FOR UPDATE SKIP LOCKED
), listed AS (
  SELECT array_agg(id) AS ids, array_agg(lease_generation) AS generations, array_agg(fence_token) AS fences,
         array_agg(:reason::text) AS errors
  FROM held
), ended AS MATERIALIZED (
  SELECT e.row_id
  FROM listed CROSS JOIN LATERAL tenure.take_back(listed.ids, listed.generations, listed.fences, listed.errors) AS e (row_id)
), told AS MATERIALIZED (
  SELECT tenure.rouse(array_agg(held.queue), array_agg(held.bucket)) AS woken FROM held
)
SELECT held.id, pg_notify(tenure.channel(), 'cancel ' || held.claimed_by), told.woken
FROM held CROSS JOIN told
WHERE held.id IN (SELECT ended.row_id FROM ended)
