-- sweep_workers: declare workers dead that have not been seen for ttl seconds, and forget those dead for a day
-- in: ttl_seconds float8
-- out: id, status (dead, forgotten)
-- why: after a step back of the clock the dead would seem seen for as long as the step; their time counts from here on.
-- It touches no row of the inbox: leases decide who holds what, the registry only who owns which bucket.
WITH ahead AS (
  UPDATE tenure.workers SET last_seen_at = clock_timestamp()  -- implied: called in a transaction of its own
  WHERE id = ANY (ARRAY(
    SELECT id FROM tenure.workers
    WHERE last_seen_at > clock_timestamp() + :ttl_seconds * interval '1 second'  -- implied: called in a transaction of its own
    ORDER BY id FOR UPDATE SKIP LOCKED))
), silent AS (
  SELECT id FROM tenure.workers
  WHERE status <> 'dead'
    AND last_seen_at < clock_timestamp() - :ttl_seconds * interval '1 second'
  ORDER BY id FOR UPDATE SKIP LOCKED
), dead AS (
  UPDATE tenure.workers AS w SET status = 'dead' FROM silent WHERE w.id = silent.id RETURNING w.id
), forgotten AS (
  DELETE FROM tenure.workers WHERE id = ANY (ARRAY(
    SELECT id FROM tenure.workers WHERE status = 'dead' AND last_seen_at < clock_timestamp() - interval '1 day'
    ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED))
  RETURNING id
)
SELECT id, 'dead' FROM dead UNION ALL SELECT id, 'forgotten' FROM forgotten
