-- Shares: a limit over several inboxes is dealt out among them, and dealt anew when there are others.
-- kind: expand
--
--   shares        what was said for all inboxes together, among which it is dealt, and the share of this one
--   take_share    a later deal: this inbox goes down to its share at once, and never up
--   raise_share   this inbox may use its share: whoever calls it has seen that all the others have gone down to theirs

-- The later deal is the one with the higher `said`, then with the higher `dealt`. An operator says another limit, workers deal it anew.
-- `was_` is what a deal has set here last: while the queue has just that, the deal is in force, else somebody has set another limit since.
CREATE TABLE tenure.shares (
  queue        text     NOT NULL PRIMARY KEY,
  said         bigint   NOT NULL,
  dealt        bigint   NOT NULL,
  inboxes      text[]   NOT NULL,
  all_running  int,
  all_rate     float8,
  all_burst    int,
  max_running  int,
  rate_per_second float8,
  burst        int,
  was_running  int,
  was_rate     float8,
  was_burst    int
);

-- 0: nothing may start here, until the others have gone down.
ALTER TABLE tenure.queues DROP CONSTRAINT queues_max_running_check;
ALTER TABLE tenure.queues ADD CONSTRAINT queues_max_running_check CHECK (max_running >= 0) NOT VALID;

-- Whoever may not set limits deals anew what an operator has said, and never changes it, nor a limit that was set for this inbox alone.
-- What was limited otherwise since, nobody deals anew.
CREATE FUNCTION tenure.take_share(
  of_queue text, now_said bigint, now_dealt bigint, among text[], whole_running int, whole_rate float8, whole_burst int,
  running int, rate float8, at_once int, joins boolean
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  may_limit boolean := has_column_privilege(session_user, 'tenure.queues', 'max_running', 'UPDATE');
  before tenure.shares;
  now_set tenure.queues;
BEGIN
  INSERT INTO tenure.queues (queue) VALUES (of_queue) ON CONFLICT (queue) DO NOTHING;
  SELECT q.* INTO now_set FROM tenure.queues AS q WHERE q.queue = of_queue FOR UPDATE;
  SELECT s.* INTO before FROM tenure.shares AS s WHERE s.queue = of_queue;
  IF (before.said, before.dealt) >= (now_said, now_dealt) THEN
    RETURN false;
  END IF;
  IF now_said > before.said AND NOT may_limit THEN
    RETURN false;
  END IF;
  IF before.queue IS NULL AND num_nonnulls(now_set.max_running, now_set.rate_per_second) > 0 AND NOT may_limit THEN
    RETURN false;
  END IF;
  IF now_said = before.said AND (before.all_running, before.all_rate, before.all_burst) IS DISTINCT FROM (whole_running, whole_rate, whole_burst) THEN
    RETURN false;
  END IF;
  IF now_said = before.said AND (before.was_running, before.was_rate, before.was_burst) IS DISTINCT FROM (now_set.max_running, now_set.rate_per_second, now_set.burst) THEN
    RETURN false;
  END IF;
  UPDATE tenure.queues AS q
  SET max_running = CASE WHEN joins THEN 0 ELSE LEAST(q.max_running, running) END,
      rate_per_second = LEAST(q.rate_per_second, rate),
      burst = LEAST(q.burst, at_once),
      tokens = CASE WHEN q.rate_per_second IS NULL AND joins THEN 0
                    ELSE tenure.refilled(q.tokens, q.rate_per_second, q.burst, clock_timestamp() - q.refilled_at) END,
      refilled_at = clock_timestamp(), updated_at = clock_timestamp()
  WHERE q.queue = of_queue
  RETURNING q.* INTO now_set;
  DELETE FROM tenure.shares AS s WHERE s.queue = of_queue;
  INSERT INTO tenure.shares (queue, said, dealt, inboxes, all_running, all_rate, all_burst, max_running, rate_per_second, burst,
                             was_running, was_rate, was_burst)
  VALUES (of_queue, now_said, now_dealt, among, whole_running, whole_rate, whole_burst, running, rate, at_once,
          now_set.max_running, now_set.rate_per_second, now_set.burst);
  PERFORM pg_notify(tenure.channel(), 'queues');
  RETURN true;
END
$$;

-- What the old rate has earned is kept, and a new one has earned nothing yet: together they start no more than was said.
CREATE FUNCTION tenure.raise_share(of_queue text, in_said bigint, in_dealt bigint) RETURNS boolean LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  share tenure.shares;
BEGIN
  PERFORM 1 FROM tenure.queues AS q WHERE q.queue = of_queue FOR UPDATE;
  SELECT s.* INTO share FROM tenure.shares AS s
  WHERE s.queue = of_queue
    AND (s.said, s.dealt) = (in_said, in_dealt);
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE tenure.queues AS q
  SET max_running = share.max_running, rate_per_second = share.rate_per_second, burst = share.burst,
      tokens = COALESCE(tenure.refilled(q.tokens, q.rate_per_second, q.burst, clock_timestamp() - q.refilled_at), 0),
      refilled_at = clock_timestamp(), updated_at = clock_timestamp()
  WHERE q.queue = of_queue
    AND (q.max_running, q.rate_per_second, q.burst) IS NOT DISTINCT FROM (share.was_running, share.was_rate, share.was_burst);
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE tenure.shares AS s SET was_running = s.max_running, was_rate = s.rate_per_second, was_burst = s.burst WHERE s.queue = of_queue;
  PERFORM pg_notify(tenure.channel(), 'queues');
  RETURN true;
END
$$;

DO $rights$
DECLARE
  grantee text;
BEGIN
  FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_class AS c, aclexplode(c.relacl) AS a
                 WHERE c.oid = 'tenure.queues'::regclass AND a.grantee NOT IN (0, c.relowner) LOOP
    EXECUTE format('GRANT SELECT ON tenure.shares TO %s', grantee);
  END LOOP;
  FOR grantee IN SELECT DISTINCT a.grantee::regrole::text FROM pg_proc AS p, aclexplode(p.proacl) AS a
                 WHERE p.oid = 'tenure.declare_limits'::regproc AND a.grantee NOT IN (0, p.proowner) LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION tenure.take_share, tenure.raise_share TO %s', grantee);
  END LOOP;
END
$rights$;
