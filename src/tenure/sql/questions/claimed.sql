-- claimed: the rows of one claim that are still held, asked for after its reply was lost
-- in: worker text, claim_id bigint
-- out: id, kind, queue, partition_key, partition_bucket, payload, attempts, max_attempts, available_seconds, lease_generation, fence_token, ends_seconds, headers, seq
SELECT i.id, i.kind, i.queue, COALESCE(i.partition_key, i.id::text), tenure.bucket(COALESCE(i.partition_key, i.id::text)), i.payload::text,
       i.attempts, i.max_attempts, date_part('epoch', i.available_at), i.lease_generation, i.fence_token,
       date_part('epoch', i.lease_expires_at), i.headers::text, i.seq
FROM tenure.live AS i
WHERE i.id = ANY (ARRAY(SELECT unnest(c.ids) FROM tenure.claims AS c WHERE c.claim_id = :claim_id))  -- implied: the claim has no others; this one walks the primary key
  AND i.claim_id = :claim_id
  AND i.claimed_by = :worker
  AND i.status = 'processing'  -- implied: live_state, only a processing row has a claim
ORDER BY i.queue, i.partition_key, i.seq  -- as the claim had them: the rows of a run stand together
LIMIT 10000
