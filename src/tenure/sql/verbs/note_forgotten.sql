-- note_forgotten: find keys on some pages of the hot table that have long been due and that no claim would find, and let claims look at them
-- in: first bigint, pages bigint, due_seconds float8 (for how long they have been due)
-- out: n (keys)
-- why: the net under claims by key. Heads and key lanes are a memory of the rows, and the rows are the truth. As a rule there are none.
WITH late AS MATERIALIZED (
  SELECT i.queue, COALESCE(i.partition_key, '') AS partition_key, i.priority, i.ordered, q.max_per_key, min(i.seq) AS seq,
         min(i.available_at) AS available_at
  FROM tenure.live AS i
  LEFT JOIN tenure.queues AS q ON q.queue = i.queue
  WHERE i.ctid > format('(%s,0)', :first::bigint)::tid
    AND i.ctid < format('(%s,0)', LEAST(:first::bigint + :pages::bigint, 4294967295))::tid
    AND i.status = 'pending'
    AND i.available_at <= clock_timestamp() - :due_seconds::float8 * interval '1 second'
    AND (i.ordered OR q.max_per_key IS NOT NULL)
  GROUP BY 1, 2, 3, 4, 5
), in_order AS (
  INSERT INTO tenure.arrivals (queue, partition_key, seq)
  SELECT late.queue, late.partition_key, late.seq FROM late
  LEFT JOIN tenure.heads AS h ON h.queue = late.queue AND h.partition_key = late.partition_key
  WHERE late.ordered
    AND (h.queue IS NULL
         OR h.from_seq > late.seq
         OR h.run_to IS NOT NULL
            AND NOT EXISTS (SELECT FROM tenure.live AS r
                            WHERE r.ordered AND r.queue = h.queue AND r.partition_key = h.partition_key
                              AND tenure.bucket(r.partition_key) = h.bucket  -- implied: a key has one; lets live_heads serve
                              AND r.seq BETWEEN h.run_from AND h.run_to  -- implied: what runs of a key is its run; bounds the search
                              AND r.status = 'processing')
         OR h.run_to IS NULL AND h.due_at > clock_timestamp()
            AND (SELECT r.available_at FROM tenure.live AS r
                 WHERE r.ordered AND r.queue = h.queue AND r.partition_key = h.partition_key
                   AND tenure.bucket(r.partition_key) = h.bucket  -- implied: as above
                   AND r.seq >= COALESCE(h.begun_seq, h.from_seq)
                 ORDER BY r.seq LIMIT 1) <= clock_timestamp())
    AND NOT EXISTS (SELECT FROM tenure.dead AS d WHERE d.queue = late.queue AND d.partition_key = late.partition_key AND d.blocks)
    AND NOT EXISTS (SELECT FROM tenure.arrivals AS a WHERE a.partition_key = late.partition_key AND a.queue = late.queue)
  RETURNING 1
), under_limits AS (
  INSERT INTO tenure.lane_arrivals (queue, partition_key, priority, available_at)
  SELECT late.queue, late.partition_key, late.priority, late.available_at FROM late
  JOIN tenure.limits_begun AS f ON f.queue = late.queue  -- without it, claims read all the rows
  WHERE NOT late.ordered
    AND NOT EXISTS (SELECT FROM tenure.key_lanes AS l
                    JOIN tenure.lane_priorities AS n ON n.queue = l.queue AND n.priority = l.priority AND n.from_due <= l.due_at
                    WHERE l.partition_key = late.partition_key AND l.queue = late.queue AND l.priority = late.priority
                      AND l.from_at <= late.available_at
                      AND (l.due_at <= clock_timestamp()
                           OR late.partition_key <> ''
                              AND late.max_per_key <= (SELECT count(*) FROM tenure.permits AS p
                                                       WHERE p.queue = late.queue AND p.partition_key = late.partition_key)))
    AND NOT EXISTS (SELECT FROM tenure.lane_arrivals AS a WHERE a.queue = late.queue AND a.partition_key = late.partition_key)
  RETURNING queue
), from_the_start AS (
  UPDATE tenure.lane_priorities AS n SET from_due = '-infinity' WHERE n.queue IN (SELECT u.queue FROM under_limits AS u)
)
SELECT (SELECT count(*)::int FROM in_order) + (SELECT count(*)::int FROM under_limits)
