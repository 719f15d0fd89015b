-- Where many claim at once, a few search at a time: the others wait a moment instead of reading past what those have locked.
-- kind: expand

-- A place among the few that search: theirs until their transaction ends. They are few enough that together they lock about 800 rows,
-- and never less than eight. Who finds none waits for one, and after half a second searches all the same: nobody depends on it.
-- Who holds anything (a row, so that its transaction has a number) takes none: a holder of a place may wait for it.
CREATE FUNCTION tenure.join_crowd(n int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  places int := GREATEST(8, LEAST(100, 800 / GREATEST(n, 1)));
  space int := 'tenure.claims'::regclass::oid::int;
  mine int := pg_backend_pid() % places;
BEGIN
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RETURN;
  END IF;
  FOR nth IN 0 .. places - 1 LOOP
    IF pg_try_advisory_xact_lock(space, (mine + nth) % places) THEN
      RETURN;
    END IF;
  END LOOP;
  PERFORM tenure.wait_for_place(space, mine);
END
$$;

-- Half a second, whatever the session allows a lock: a claim does not fail for it.
CREATE FUNCTION tenure.wait_for_place(space int, place int) RETURNS void LANGUAGE plpgsql SET lock_timeout = '500ms' AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(space, place);
EXCEPTION WHEN lock_not_available THEN
  RETURN;
END
$$;

-- Claim as the verb claim does, from a place. Each statement in here sees what was committed by the time the place is had: what others
-- have claimed meanwhile is not tried.
CREATE FUNCTION tenure.claim_in_crowd(
  for_worker text, under_claim bigint, lease_seconds float8, n int, seen_epoch int, of_queues text[], of_priorities smallint[],
  floors float8[], owned int[]
) RETURNS TABLE (
  id uuid, kind text, queue text, partition_key text, partition_bucket int, payload text, attempts int, max_attempts int,
  available_seconds float8, lease_generation bigint, fence_token bigint, ends_seconds float8, headers text, seq bigint, priority smallint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  moment timestamptz;
BEGIN
  PERFORM tenure.join_crowd(n);
  moment := clock_timestamp();
  RETURN QUERY
  WITH picked AS MATERIALIZED (
    SELECT ready.ctid, ready.id
    FROM unnest(of_queues, of_priorities, floors) AS lane (queue, priority, floor)
    CROSS JOIN LATERAL (
      SELECT r.ctid, r.id
      FROM tenure.live AS r
      WHERE NOT r.ordered
        AND r.seq < 9223372036854775807  -- implied: always so; lets live_due serve and no other index
        AND r.queue = lane.queue
        AND r.priority = lane.priority
        AND r.available_at >= tenure.since(lane.floor)
        AND r.available_at <= moment
        AND r.status = 'pending'
        AND (owned IS NULL OR tenure.bucket(COALESCE(r.partition_key, r.id::text)) = ANY (owned))
      ORDER BY r.available_at
      LIMIT n
      FOR UPDATE SKIP LOCKED
    ) AS ready
    WHERE NOT EXISTS (SELECT FROM tenure.workers AS w WHERE w.id = for_worker AND (w.status <> 'alive' OR w.gone_at IS NOT NULL))
      AND lane.queue <> ALL (ARRAY(SELECT q.queue FROM tenure.queues AS q WHERE q.limited))
    LIMIT n
  ), listed AS (
    INSERT INTO tenure.claims (until, claim_id, ids)
    SELECT clock_timestamp() + claim_in_crowd.lease_seconds * interval '1 second', under_claim, array_agg(p.id) FROM picked AS p HAVING count(*) > 0
  )
  UPDATE tenure.live AS i
  SET status = 'processing',
      claimed_by = for_worker,
      claimed_at = (SELECT clock_timestamp()),
      lease_expires_at = (SELECT clock_timestamp() + claim_in_crowd.lease_seconds * interval '1 second'),
      lease_generation = i.lease_generation + 1,
      fence_token = (SELECT tenure.next_fence(seen_epoch)),
      claim_id = under_claim,
      attempts = i.attempts + 1
  WHERE i.ctid = ANY (ARRAY(SELECT p.ctid FROM picked AS p))
  RETURNING i.id, i.kind, i.queue, COALESCE(i.partition_key, i.id::text), tenure.bucket(COALESCE(i.partition_key, i.id::text)), i.payload::text,
            i.attempts, i.max_attempts, date_part('epoch', i.available_at), i.lease_generation, i.fence_token,
            date_part('epoch', i.lease_expires_at), i.headers::text, i.seq, i.priority;
END
$$;
