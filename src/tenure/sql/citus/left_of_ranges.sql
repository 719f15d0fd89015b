-- left_of_ranges: what this inbox still has of these ranges of keys, asked by another that is to have them
-- in: ranges bigint[]
-- out: range, at_work (a key with ordered rows that do not wait, or that is kept for an operator; NULL: none), since (the first of those that wait), fence (of this inbox)
WITH busy AS (
  SELECT tenure_door.range_of(k.partition_key) AS range, min(k.partition_key) AS key
  FROM (SELECT i.partition_key FROM tenure.live AS i
        WHERE i.ordered AND NOT EXISTS (SELECT FROM tenure.waiting AS w WHERE w.row_id = i.id)
        UNION
        SELECT d.partition_key FROM tenure.dead AS d WHERE d.blocks) AS k
  GROUP BY 1
), held AS (
  SELECT tenure_door.range_of(w.partition_key) AS range, min(w.since) AS since FROM tenure.waiting AS w GROUP BY 1
)
SELECT a.range, (SELECT b.key FROM busy AS b WHERE b.range = a.range), (SELECT h.since FROM held AS h WHERE h.range = a.range),
       (SELECT (i.epoch::bigint << 40) + i.ahead + COALESCE(pg_catalog.pg_sequence_last_value('tenure.fence_seq'), 0) FROM tenure.incarnation AS i)
FROM unnest(:ranges::bigint[]) AS a (range)
