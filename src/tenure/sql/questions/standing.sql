-- standing: where rows stand whose write was refused, and how the tape says the refused attempts ended
-- in: ids uuid[], generations bigint[], fences bigint[]
-- out: id, fence, status, lease_generation, fence_token, expired, outcome
SELECT lease.id, lease.fence, i.status, i.lease_generation, i.fence_token, COALESCE(i.lease_expires_at <= clock_timestamp(), false), t.outcome
FROM unnest(:ids::uuid[], :generations::bigint[], :fences::bigint[]) AS lease (id, generation, fence)
CROSS JOIN LATERAL (
  SELECT found.status, found.lease_generation, found.fence_token, found.lease_expires_at
  FROM tenure.inbox AS found
  WHERE found.id = lease.id
  LIMIT 1
) AS i
LEFT JOIN tenure.attempts AS t ON t.row_id = lease.id AND t.fence_token = lease.fence
LIMIT 10000
