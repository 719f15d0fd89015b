-- complete: end these attempts well and move their rows to the archive, if the leases are still current
-- in: ids uuid[], generations bigint[], fences bigint[], accept_late boolean
-- out: n, accepted uuid[], their fences bigint[] (both NULL: all of them)
-- why: the token is the safety; the lease's end is policy (accept_late takes a completion that comes after it, while nobody
-- else has taken the row). What is not accepted was refused. IS TRUE keeps the planner from making a join of the tokens:
-- the primary key is walked once, in id order.
WITH done AS (
  DELETE FROM tenure.live AS i
  WHERE i.id = ANY (:ids::uuid[])  -- implied: the tokens name their rows; this one walks the primary key
    AND i.status = 'processing'
    AND ((i.id, i.lease_generation, i.fence_token) IN (SELECT l.id, l.generation, l.fence FROM unnest(:ids::uuid[], :generations::bigint[], :fences::bigint[]) AS l (id, generation, fence))) IS TRUE
    AND (i.lease_expires_at > clock_timestamp() OR :accept_late)
  RETURNING i.id, i.created_at, i.available_at, i.claimed_at, i.lease_generation, i.fence_token, i.attempts, i.max_attempts,
            i.priority, i.ordered, i.limited, i.kind, i.queue, i.partition_key, i.claimed_by, i.idempotency_key,
            i.payload, i.last_error, i.headers
), kept AS (
  INSERT INTO tenure.archive (id, created_at, available_at, claimed_at, completed_at, lease_generation, fence_token, attempts,
                              max_attempts, priority, ordered, kind, queue, partition_key, finished_by,
                              idempotency_key, payload, last_error, headers)
  SELECT id, created_at, available_at, claimed_at, clock_timestamp(), lease_generation, fence_token, attempts,
         max_attempts, priority, ordered, kind, queue, partition_key, claimed_by,
         idempotency_key, payload, last_error, headers
  FROM done
), freed AS (
  DELETE FROM tenure.keys AS k USING done
  WHERE k.row_id = done.id
    AND done.ordered  -- implied: only ordered rows have a key; spares the others the look
), given_back AS (
  DELETE FROM tenure.permits AS p USING done
  WHERE p.row_id = done.id
    AND done.limited  -- implied: only rows claimed under limits have permits; spares the others the look
)
SELECT count(*)::int,
       CASE WHEN count(*) < cardinality(:ids::uuid[]) THEN array_agg(id) END,
       CASE WHEN count(*) < cardinality(:ids::uuid[]) THEN array_agg(fence_token) END
FROM done
