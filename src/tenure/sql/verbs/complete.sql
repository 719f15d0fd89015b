-- complete: end these attempts well and move their rows to the archive, if the leases are still current
-- in: ids uuid[], generations bigint[], fences bigint[], accept_late boolean, ordered boolean (some of the rows may be), keep boolean (their payloads), results text[] (JSON, one a row; NULL: none)
-- out: n, accepted uuid[], their fences bigint[] (both NULL: all of them), groups bigint[] (that ended with them), valued int (results kept), within (the mark of enter, if this is its transaction)
-- why: the token is the safety; the lease's end is policy (accept_late takes a completion that comes after it, while nobody
-- else has taken the row). What is not accepted was refused. IS TRUE keeps the planner from making a join of the tokens:
-- the primary key is walked once, in id order. The rows of a run end in order: behind one that is not completed here, none is.
WITH behind AS MATERIALIZED (
  SELECT mine.id
  FROM (SELECT i.queue, i.partition_key, array_agg(i.id) AS ids, array_agg(i.seq) AS seqs, max(i.seq) AS last FROM tenure.live AS i
        WHERE :ordered  -- implied: only spares the look; ordered rows are refused without it
          AND i.id = ANY (:ids::uuid[]) AND i.ordered  -- implied: spares the look at the others, which are not deleted below
        GROUP BY i.queue, i.partition_key) AS k
  CROSS JOIN LATERAL (
    SELECT r.seq FROM tenure.heads AS h
    JOIN tenure.live AS r ON r.ordered AND r.queue = h.queue AND tenure.bucket(r.partition_key) = h.bucket
      AND r.partition_key = h.partition_key
      AND r.seq BETWEEN h.run_from AND h.run_to  -- implied: of a key only the rows of its run are held; spares the look at those that wait
    WHERE h.queue = k.queue AND h.partition_key = k.partition_key
      AND r.seq < k.last  -- implied: nothing of ours is behind the others
      AND r.status = 'processing'
      AND NOT (((r.id, r.lease_generation, r.fence_token) IN (SELECT l.id, l.generation, l.fence FROM unnest(:ids::uuid[], :generations::bigint[], :fences::bigint[]) AS l (id, generation, fence))) IS TRUE
               AND (r.lease_expires_at > clock_timestamp() OR :accept_late))
    ORDER BY r.seq LIMIT 1
  ) AS gap
  CROSS JOIN LATERAL unnest(k.ids, k.seqs) AS mine (id, seq)
  WHERE mine.seq > gap.seq
), done AS (
  DELETE FROM tenure.live AS i
  WHERE i.id = ANY (:ids::uuid[])  -- implied: the tokens name their rows; this one walks the primary key
    AND i.status = 'processing'
    AND ((i.id, i.lease_generation, i.fence_token) IN (SELECT l.id, l.generation, l.fence FROM unnest(:ids::uuid[], :generations::bigint[], :fences::bigint[]) AS l (id, generation, fence))) IS TRUE
    AND (i.lease_expires_at > clock_timestamp() OR :accept_late)
    AND (NOT i.ordered
         OR :ordered AND i.id NOT IN (SELECT behind.id FROM behind))
  RETURNING i.id, i.seq, i.created_at, i.available_at, i.claimed_at, i.lease_generation, i.fence_token, i.attempts, i.max_attempts,
            i.priority, i.ordered, i.limited, i.kind, i.queue, i.partition_key, i.claimed_by, i.idempotency_key,
            i.payload, i.last_error, i.headers, i.counted
), kept AS (
  INSERT INTO tenure.archive (id, created_at, available_at, claimed_at, completed_at, lease_generation, fence_token, attempts,
                              max_attempts, priority, ordered, kind, queue, partition_key, finished_by,
                              idempotency_key, payload, last_error, headers, counted)
  SELECT id, created_at, available_at, claimed_at, clock_timestamp(), lease_generation, fence_token, attempts,
         max_attempts, priority, ordered, kind, queue, partition_key, claimed_by,
         idempotency_key, CASE WHEN :keep THEN payload ELSE '{"$not_kept": "keep_payload=False"}' END, last_error, headers, counted
  FROM done
), freed AS (
  INSERT INTO tenure.arrivals (queue, partition_key, seq)
  SELECT done.queue, done.partition_key, min(done.seq) FROM done
  WHERE :ordered  -- implied: as above
    AND done.ordered  -- implied: an arrival too many is no harm
  GROUP BY done.queue, done.partition_key
), given_back AS (
  DELETE FROM tenure.permits AS p USING done
  WHERE p.row_id = done.id
    AND done.limited  -- implied: only rows claimed under limits have permits; spares the others the look
)
SELECT count(*)::int,
       CASE WHEN count(*) < cardinality(:ids::uuid[]) THEN (SELECT array_agg(id) FROM done) END,
       CASE WHEN count(*) < cardinality(:ids::uuid[]) THEN (SELECT array_agg(fence_token) FROM done) END,
       (SELECT tenure.count_ends(array_agg(d.counted), NULL) FROM done AS d
        WHERE d.counted > 0  -- implied: count_ends passes the others by
        HAVING count(*) > 0),
       CASE WHEN :results::text[] IS NOT NULL THEN
         (SELECT tenure.keep_values(array_agg(d.id), array_agg(d.queue), :ids::uuid[], :results::jsonb[]) FROM done AS d) END,
       current_setting('tenure_tx.within', true)
FROM done
