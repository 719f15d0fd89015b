-- ended: how these rows ended, with their results, in the order in which they are asked for
-- in: ids uuid[]
-- out: id, status (unknown: no such row, or no more), value text (JSON), error, kind, queue, partition_key
SELECT asked.id, COALESCE(i.status, CASE WHEN r.value IS NULL THEN 'unknown' ELSE 'completed' END), r.value::text,
       CASE WHEN i.status NOT IN ('pending', 'processing', 'completed') THEN i.last_error END, i.kind, i.queue, i.partition_key
FROM unnest(:ids::uuid[]) WITH ORDINALITY AS asked (id, nth)
LEFT JOIN LATERAL (
  SELECT found.status, found.last_error, found.kind, found.queue, found.partition_key FROM tenure.inbox AS found
  WHERE found.id = asked.id LIMIT 1
) AS i ON true
LEFT JOIN LATERAL (
  SELECT kept.value FROM tenure.results AS kept WHERE kept.row_id = asked.id LIMIT 1
) AS r ON true
ORDER BY asked.nth
LIMIT 100000
