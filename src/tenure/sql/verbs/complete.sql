-- complete: end these attempts well and move their rows to the archive, if the leases are still current
-- in: ids uuid[], generations bigint[], fences bigint[], accept_late boolean
-- out: n, accepted uuid[], their fences bigint[] (both NULL: all of them)
-- why: the token is the safety; the lease's end is policy (accept_late takes a completion that comes after it, while nobody
-- else has taken the row). What is not accepted was refused.
WITH done AS (
  DELETE FROM tenure.live AS i
  USING unnest(:ids::uuid[], :generations::bigint[], :fences::bigint[]) AS lease (id, generation, fence)
  WHERE i.id = lease.id
    AND i.status = 'processing'
    AND i.lease_generation = lease.generation
    AND i.fence_token = lease.fence
    AND (i.lease_expires_at > clock_timestamp() OR :accept_late)
  RETURNING i.id, i.created_at, i.available_at, i.claimed_at, i.lease_generation, i.fence_token, i.attempts, i.max_attempts,
            i.priority, i.ordered, i.kind, i.queue, i.partition_key, i.claimed_by, i.idempotency_key,
            i.payload, i.last_error
), kept AS (
  INSERT INTO tenure.archive (id, created_at, available_at, claimed_at, completed_at, lease_generation, fence_token, attempts,
                              max_attempts, priority, ordered, kind, queue, partition_key, finished_by,
                              idempotency_key, payload, last_error)
  SELECT id, created_at, available_at, claimed_at, clock_timestamp(), lease_generation, fence_token, attempts,
         max_attempts, priority, ordered, kind, queue, partition_key, claimed_by,
         idempotency_key, payload, last_error
  FROM done
), freed AS (
  DELETE FROM tenure.keys AS k USING done WHERE done.ordered AND k.row_id = done.id
)
SELECT count(*)::int,
       CASE WHEN count(*) < cardinality(:ids::uuid[]) THEN array_agg(id) END,
       CASE WHEN count(*) < cardinality(:ids::uuid[]) THEN array_agg(fence_token) END
FROM done
