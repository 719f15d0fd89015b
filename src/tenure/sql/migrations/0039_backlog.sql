-- How many rows were due, for the picture of a backlog over time.
-- kind: expand
--
-- Of the longest queues, every ten seconds; under the empty name stands what all others have together, and that it was counted.

ALTER TABLE tenure.tally ADD COLUMN due int, ADD COLUMN due_more boolean;  -- more: at least so many
-- When it was last counted.
CREATE INDEX tally_counted ON tenure.tally (at) WHERE queue = '' AND due IS NOT NULL;
INSERT INTO tenure.chores (name, every_seconds) VALUES ('backlog', 10);

-- How many rows of a lane are due, or of the ordered rows of a queue (without a priority), within so many looks; cut: there may be more.
CREATE FUNCTION tenure.count_due(of_queue text, of_priority smallint, moment timestamptz, looks int) RETURNS TABLE (n int, cut boolean) LANGUAGE sql STABLE AS $$
  SELECT (count(*) FILTER (WHERE seen.status = 'pending' AND seen.available_at <= moment))::int, count(*) >= looks
  FROM (
    (SELECT r.status, r.available_at FROM tenure.live AS r
     WHERE NOT r.ordered
       AND r.seq < 9223372036854775807  -- implied: always so; lets live_due serve and no other index
       AND r.queue = of_queue AND r.priority = of_priority
       AND r.available_at <= moment
     ORDER BY r.available_at LIMIT looks)
    UNION ALL
    (SELECT r.status, r.available_at FROM tenure.live AS r
     WHERE of_priority IS NULL
       AND r.ordered AND r.queue = of_queue
     ORDER BY tenure.bucket(r.partition_key), r.partition_key, r.seq LIMIT looks)
  ) AS seen
$$;

-- How many rows of ordered keys are due, of those keys that claims have found due: they stand among many that are not.
CREATE FUNCTION tenure.count_due_keys(of_queue text, moment timestamptz, looks int) RETURNS int LANGUAGE sql STABLE AS $$
  SELECT (count(*) FILTER (WHERE seen.status = 'pending' AND seen.available_at <= moment))::int
  FROM (
    SELECT r.status, r.available_at
    FROM (
      SELECT h.partition_key, h.bucket, h.from_seq FROM tenure.heads AS h
      WHERE h.queue = of_queue
        AND h.bucket >= 0  -- implied: always so; lets heads_due serve and no other index
        AND h.due_at <= moment  -- implied: the others come after it, and are not counted
      ORDER BY h.due_at LIMIT looks / 2
    ) AS head
    LEFT JOIN LATERAL (
      SELECT r.status, r.available_at FROM tenure.live AS r
      WHERE r.ordered AND r.queue = of_queue
        AND tenure.bucket(r.partition_key) = head.bucket  -- implied: as its key is; lets live_heads serve
        AND r.partition_key = head.partition_key
        AND r.seq >= head.from_seq  -- implied: no row stands before it; passes those already gone
      ORDER BY r.seq
    ) AS r ON true
    LIMIT looks / 2
  ) AS seen
$$;

-- Count what is due and write it down. All queues share the looks: a quarter for a first look at each lane, the rest for a second
-- one where the first was cut short. Slow (dead versions under a snapshot that is held), it is done less often. A zero is
-- written once and stands until there is something again.
CREATE FUNCTION tenure.add_backlog(looks int, longest int, slower float8) RETURNS int LANGUAGE plpgsql
  SET lock_timeout = '100ms'
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
  moment timestamptz := clock_timestamp();  -- implied: called in a transaction of its own
  period timestamptz := date_bin('10 seconds', moment, 'epoch');
  last_at timestamptz := (SELECT t.at FROM tenure.tally AS t
                          WHERE t.due IS NOT NULL
                            AND t.queue = ''  -- implied: always among them; lets tally_counted serve
                          ORDER BY t.at DESC LIMIT 1);
  waited boolean := EXISTS (SELECT FROM tenure.tally AS t WHERE t.at = last_at AND t.due > 0);
  pace float8;
  n int;
BEGIN
  WITH lane AS MATERIALIZED (
    SELECT l.queue, l.priority FROM tenure.lanes() AS l
    UNION ALL
    SELECT o.queue, NULL FROM tenure.ordered_queues() AS o
    LIMIT looks / 4
  ), share AS MATERIALIZED (
    SELECT (looks / 4 / GREATEST(1, count(*)))::int AS n, count(*) = looks / 4 AS cut FROM lane
  ), first AS MATERIALIZED (
    SELECT l.queue, l.priority, met.n, met.cut
    FROM share CROSS JOIN lane AS l CROSS JOIN LATERAL tenure.count_due(l.queue, l.priority, moment, share.n) AS met
  ), again AS MATERIALIZED (
    SELECT (looks / 4 / GREATEST(1, count(*) FILTER (WHERE f.cut)))::int AS n FROM first AS f
  ), counted AS (
    SELECT f.queue, GREATEST(f.n, further.n, tenure.count_due_keys(f.queue, moment, CASE WHEN f.cut AND f.priority IS NULL THEN again.n ELSE 0 END)) AS n,
           f.cut AND further.cut AS cut
    FROM again CROSS JOIN first AS f
    CROSS JOIN LATERAL tenure.count_due(f.queue, f.priority, moment, CASE WHEN f.cut THEN 2 * again.n ELSE 0 END) AS further
  ), ranked AS MATERIALIZED (
    SELECT c.queue, sum(c.n)::int AS n, bool_or(c.cut) AS cut, row_number() OVER (ORDER BY sum(c.n) DESC, c.queue) AS nth
    FROM counted AS c GROUP BY c.queue
  ), told AS (
    SELECT period AS at, CASE WHEN r.nth <= longest AND r.n > 0 THEN r.queue ELSE '' END AS queue, r.n, r.cut FROM ranked AS r
    UNION ALL
    SELECT period, '', 0, share.cut FROM share
    UNION ALL
    SELECT period - interval '10 seconds', '', 0, false
    WHERE NOT waited AND last_at < period - interval '10 seconds'
  ), noted AS (
    INSERT INTO tenure.tally AS t (at, queue, acquired, reclaimed, renewed, expired, lost, stale_writes_blocked, completed, retried,
                                   released, failed, dead_lettered, cancelled, waits, runs, due, due_more)
    SELECT told.at, told.queue, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, array_fill(0, ARRAY[17]), array_fill(0, ARRAY[17]), sum(told.n), bool_or(told.cut)
    FROM told
    WHERE waited OR EXISTS (SELECT FROM ranked AS r WHERE r.n > 0)
    GROUP BY told.at, told.queue
    ORDER BY told.at, told.queue
    ON CONFLICT (at, queue) DO UPDATE SET due = EXCLUDED.due, due_more = EXCLUDED.due_more
    RETURNING t.queue
  )
  SELECT count(*) INTO n FROM noted WHERE noted.queue <> '';
  pace := LEAST(600, GREATEST(10, 10 * ceil(slower * date_part('epoch', clock_timestamp() - moment) / 10)));
  UPDATE tenure.chores AS c SET every_seconds = pace
  WHERE c.name = 'backlog'
    AND c.every_seconds <> pace;  -- implied: spares the write
  RETURN n;
END
$$;
