-- Claims whose cost follows what can run: one index for each search, and a list of what was claimed.
-- kind: contract

-- Both indexes fit a search for due rows, and the planner took whichever seemed smaller just then. Each now has a condition that
-- is always true and that one kind of search alone names: no plan can take the other.
ALTER TABLE tenure.live ADD CONSTRAINT live_seq CHECK (seq > 0 AND seq < 9223372036854775807);
DROP INDEX tenure.live_due;
DROP INDEX tenure.live_ready;
-- By time: a lane (queue, priority), then time.
CREATE INDEX live_due ON tenure.live (queue, priority, available_at) WHERE NOT ordered AND seq < 9223372036854775807;
-- By bucket: a lane, a bucket, then time.
CREATE INDEX live_ready ON tenure.live (queue, priority, tenure.bucket(COALESCE(partition_key, id::text)), available_at) WHERE NOT ordered AND seq > 0;

-- What was claimed, one row a claim: when to look whether its leases are over. Neither a renewal nor a completion changes it.
CREATE TABLE tenure.claims (
  until    timestamptz NOT NULL,
  id       bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
  claim_id bigint      NOT NULL,
  ids      uuid[]      NOT NULL,
  PRIMARY KEY (until, id)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- What is held now.
INSERT INTO tenure.claims (until, claim_id, ids)
SELECT max(i.lease_expires_at), i.claim_id, array_agg(i.id) FROM tenure.live AS i WHERE i.status = 'processing' GROUP BY i.claim_id;

-- Where a search by time may begin. A floor that lies ahead of the clock is of another clock: then there is none.
CREATE FUNCTION tenure.since(floor_seconds float8) RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN to_timestamp(floor_seconds) <= statement_timestamp()  -- implied: a floor only saves work
              THEN to_timestamp(floor_seconds) ELSE '-infinity' END
$$;

-- The lanes (queue, priority) that hold unordered rows, by a loose walk of live_due: one probe a lane, whatever the backlog.
CREATE OR REPLACE FUNCTION tenure.lanes() RETURNS TABLE (queue text, priority smallint) LANGUAGE sql STABLE AS $$
  WITH RECURSIVE lane AS (
    (SELECT i.queue, i.priority FROM tenure.live AS i
     WHERE NOT i.ordered AND i.seq < 9223372036854775807 ORDER BY i.queue, i.priority LIMIT 1)
    UNION ALL
    SELECT further.queue, further.priority FROM lane CROSS JOIN LATERAL (
      SELECT i.queue, i.priority FROM tenure.live AS i
      WHERE NOT i.ordered AND i.seq < 9223372036854775807 AND (i.queue, i.priority) > (lane.queue, lane.priority)
      ORDER BY i.queue, i.priority LIMIT 1) AS further
  )
  SELECT lane.queue, lane.priority FROM lane
$$;

-- The priorities of a queue that hold unordered rows, most urgent first: one probe each.
CREATE OR REPLACE FUNCTION tenure.priorities(of_queue text) RETURNS SETOF smallint LANGUAGE sql STABLE AS $$
  WITH RECURSIVE lane AS (
    (SELECT i.priority FROM tenure.live AS i
     WHERE NOT i.ordered  -- implied: whoever walks a lane asks again; this one lets live_due serve
       AND i.seq < 9223372036854775807  -- implied: always so; lets live_due serve and no other index
       AND i.queue = of_queue  -- implied: as above, a lane too many is empty
     ORDER BY i.priority DESC LIMIT 1)
    UNION ALL
    SELECT further.priority FROM lane CROSS JOIN LATERAL (
      SELECT i.priority FROM tenure.live AS i
      WHERE NOT i.ordered  -- implied: as above
        AND i.seq < 9223372036854775807  -- implied: as above
        AND i.queue = of_queue  -- implied: as above
        AND i.priority < lane.priority
      ORDER BY i.priority DESC LIMIT 1) AS further
  )
  SELECT lane.priority FROM lane
$$;

-- Up to n unordered rows of a queue that could run now, the most urgent first, then what has been due longest.
CREATE OR REPLACE FUNCTION tenure.due_by_time(of_queue text, n int) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
  SELECT due.id FROM tenure.priorities(of_queue) AS lane (priority)
  CROSS JOIN LATERAL (
    SELECT i.id FROM tenure.live AS i
    WHERE NOT i.ordered
      AND i.seq < 9223372036854775807  -- implied: always so; lets live_due serve and no other index
      AND i.queue = of_queue AND i.priority = lane.priority
      AND i.available_at <= statement_timestamp()
      AND i.status = 'pending'
    ORDER BY i.available_at LIMIT n) AS due
  LIMIT n
$$;

-- The same out of all buckets, four a bucket, from a bucket on: what a key with a long backlog cannot hide.
CREATE OR REPLACE FUNCTION tenure.due_by_bucket(of_queue text, from_bucket int, n int) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
  SELECT due.id FROM tenure.priorities(of_queue) AS lane (priority)
  CROSS JOIN generate_series(from_bucket, from_bucket + 1023) AS turn (bucket)
  CROSS JOIN LATERAL (
    SELECT i.id FROM tenure.live AS i
    WHERE NOT i.ordered
      AND i.seq > 0  -- implied: always so; lets live_ready serve and no other index
      AND i.queue = of_queue AND i.priority = lane.priority
      AND tenure.bucket(COALESCE(i.partition_key, i.id::text)) = turn.bucket & 1023
      AND i.available_at <= statement_timestamp()
      AND i.status = 'pending'
    ORDER BY i.available_at LIMIT 4) AS due
  LIMIT n
$$;

-- Every row now processing: the whole hot table is read.
DROP FUNCTION tenure.held(int);
DROP FUNCTION tenure.spots();
CREATE FUNCTION tenure.held() RETURNS SETOF uuid LANGUAGE sql STABLE
  SET enable_seqscan = on  -- what a queue connection switches off
AS $$
  SELECT i.id FROM tenure.live AS i WHERE i.status = 'processing'  -- implied: whoever asks looks again at what is found
$$;

-- The held rows: all of them while the hot table is small enough to be read through, as a rule it is. Else those of the claims that
-- end last, as far as 50,000 rows claimed. For people to look at, not to act on.
CREATE OR REPLACE FUNCTION tenure.seen_held(most int DEFAULT 10001) RETURNS SETOF uuid LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF pg_relation_size('tenure.live') < 64 * 1024 * 1024 THEN
    RETURN QUERY SELECT tenure.read_through(most);
    RETURN;
  END IF;
  RETURN QUERY
  SELECT DISTINCT row.id
  FROM (SELECT c.claim_id, unnest(c.ids) AS id FROM tenure.claims AS c ORDER BY c.until DESC LIMIT 50000) AS listed
  CROSS JOIN LATERAL (
    SELECT i.id FROM tenure.live AS i
    WHERE i.id = listed.id AND i.claim_id = listed.claim_id AND i.status = 'processing'
    LIMIT 1) AS row
  LIMIT most;
END
$$;

-- Live rows of a queue, of a bucket, or due (or not yet due), whichever is given: at most so many, without a look at the others.
CREATE OR REPLACE FUNCTION tenure.near(of_queue text, of_bucket int, due boolean, most int) RETURNS SETOF uuid LANGUAGE plpgsql STABLE AS $$
DECLARE
  since timestamptz := CASE WHEN due THEN '-infinity' WHEN NOT due THEN statement_timestamp() ELSE '-infinity' END;
  until timestamptz := CASE WHEN due THEN statement_timestamp() ELSE 'infinity' END;
BEGIN
  IF of_bucket IS NULL THEN
    RETURN QUERY SELECT r.id FROM tenure.lanes() AS lane CROSS JOIN LATERAL (
      SELECT i.id FROM tenure.live AS i
      WHERE NOT i.ordered AND i.seq < 9223372036854775807 AND i.queue = lane.queue AND i.priority = lane.priority
        AND i.available_at >= since AND i.available_at <= until
      ORDER BY i.available_at LIMIT most) AS r
    WHERE of_queue IS NULL OR lane.queue = of_queue
    LIMIT most;
  ELSE
    RETURN QUERY SELECT r.id FROM tenure.lanes() AS lane CROSS JOIN LATERAL (
      SELECT i.id FROM tenure.live AS i
      WHERE NOT i.ordered AND i.seq > 0 AND i.queue = lane.queue AND i.priority = lane.priority
        AND tenure.bucket(COALESCE(i.partition_key, i.id::text)) = of_bucket
      ORDER BY i.available_at LIMIT most) AS r
    WHERE of_queue IS NULL OR lane.queue = of_queue
    LIMIT most;
  END IF;
  RETURN QUERY SELECT r.id FROM tenure.ordered_queues() AS o CROSS JOIN LATERAL (
    SELECT i.id FROM tenure.live AS i
    WHERE i.ordered AND i.queue = o.queue AND (of_bucket IS NULL OR tenure.bucket(i.partition_key) = of_bucket)
    LIMIT most) AS r
  WHERE of_queue IS NULL OR o.queue = of_queue
  LIMIT most;
END
$$;

-- How many rows there are in each state, counted up to cap by walks of indexes; `more`: at least so many.
CREATE OR REPLACE FUNCTION tenure.all_counts(cap int) RETURNS TABLE (state text, n bigint, more boolean) LANGUAGE sql STABLE AS $$
  WITH in_order AS (
    SELECT count(*) FILTER (WHERE few.available_at <= statement_timestamp()) AS due,
           count(*) FILTER (WHERE few.available_at > statement_timestamp()) AS later,
           count(*) >= cap AS more
    FROM (
      SELECT r.available_at FROM tenure.ordered_queues() AS o CROSS JOIN LATERAL (
        SELECT i.available_at FROM tenure.live AS i WHERE i.ordered AND i.queue = o.queue AND i.status = 'pending' LIMIT cap) AS r
      LIMIT cap) AS few
  ), due AS (
    SELECT count(*) AS n FROM (
      SELECT FROM tenure.lanes() AS lane CROSS JOIN LATERAL (
        SELECT FROM tenure.live AS i
        WHERE NOT i.ordered AND i.seq < 9223372036854775807 AND i.queue = lane.queue AND i.priority = lane.priority
          AND i.status = 'pending' AND i.available_at <= statement_timestamp() LIMIT cap) AS r
      LIMIT cap) AS few
  ), later AS (
    SELECT count(*) AS n FROM (
      SELECT FROM tenure.lanes() AS lane CROSS JOIN LATERAL (
        SELECT FROM tenure.live AS i
        WHERE NOT i.ordered AND i.seq < 9223372036854775807 AND i.queue = lane.queue AND i.priority = lane.priority
          AND i.status = 'pending' AND i.available_at > statement_timestamp() LIMIT cap) AS r
      LIMIT cap) AS few
  )
  SELECT 'runnable', due.n + in_order.due, in_order.more FROM due CROSS JOIN in_order
  UNION ALL
  SELECT 'scheduled', later.n + in_order.later, in_order.more FROM later CROSS JOIN in_order
  UNION ALL
  SELECT 'processing', count(*), false
  FROM tenure.seen_held(cap) AS h (id) JOIN tenure.live AS i ON i.id = h.id WHERE i.status = 'processing'
  UNION ALL
  SELECT 'completed', count(*), false FROM (SELECT a.id FROM tenure.archive AS a ORDER BY a.id DESC LIMIT cap) AS few
  UNION ALL
  SELECT ended.status, (SELECT count(*) FROM (SELECT FROM tenure.dead AS d WHERE d.status = ended.status LIMIT cap) AS few), false
  FROM unnest(ARRAY['failed', 'dead_letter', 'cancelled']) AS ended (status)
$$;
