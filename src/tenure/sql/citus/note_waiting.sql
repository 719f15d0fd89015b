-- note_waiting: write down at rows that wait for their range what it waits for, for `tenure why`
-- in: ranges bigint[], reasons text[]
-- out: rows
-- why: a thousand at most, the first of each range: whoever stands behind one of them is told so.
WITH noted AS (
  UPDATE tenure.live AS i SET last_error = w.reason
  FROM (SELECT k.row_id, a.reason FROM tenure.waiting AS k
        JOIN unnest(:ranges::bigint[], :reasons::text[]) AS a (range, reason) ON a.range = tenure_door.range_of(k.partition_key)
        ORDER BY k.since LIMIT 1000) AS w
  WHERE i.id = w.row_id
    AND i.last_error IS DISTINCT FROM w.reason  -- implied: else what stands there is written again
  RETURNING 1
)
SELECT count(*)::int FROM noted
