-- left_of_ranges: what this inbox still has of these ranges of keys, asked by another that is to have them
-- in: ranges bigint[]
-- out: range, at_work (ordered rows that do not wait, or a key that is kept for an operator), since (the first of those that wait), fence (of this inbox)
WITH busy AS (
  SELECT DISTINCT tenure_door.range_of(k.partition_key) AS range
  FROM (SELECT i.partition_key FROM tenure.live AS i
        WHERE i.ordered AND NOT EXISTS (SELECT FROM tenure.waiting AS w WHERE w.row_id = i.id)
        UNION
        SELECT d.partition_key FROM tenure.dead AS d WHERE d.blocks) AS k
), held AS (
  SELECT tenure_door.range_of(w.partition_key) AS range, min(w.since) AS since FROM tenure.waiting AS w GROUP BY 1
)
SELECT a.range, a.range IN (SELECT b.range FROM busy AS b), (SELECT h.since FROM held AS h WHERE h.range = a.range),
       (SELECT (i.epoch::bigint << 40) + i.ahead + COALESCE(pg_catalog.pg_sequence_last_value('tenure.fence_seq'), 0) FROM tenure.incarnation AS i)
FROM unnest(:ranges::bigint[]) AS a (range)
