-- outboxes: the events of each outbox that wait, how long the first of them has been due, and how many keys wait for an operator
-- in: (none)
-- out: outbox, pending, processing, postponed, oldest_seconds (NULL: none is due), blocked, dead, queues (where workers have declared that they take its events)
WITH live AS (
  SELECT i.kind, count(*) FILTER (WHERE i.status = 'pending') AS pending, count(*) FILTER (WHERE i.status = 'processing') AS processing,
         count(*) FILTER (WHERE i.status = 'pending' AND i.available_at > statement_timestamp()) AS postponed,
         min(i.created_at) FILTER (WHERE i.status = 'pending' OR i.status = 'processing') AS oldest
  FROM (SELECT r.kind, r.status, r.available_at, r.created_at FROM tenure.live AS r WHERE r.kind LIKE 'outbox:%' LIMIT 100000) AS i
  GROUP BY i.kind
), dead AS (
  SELECT d.kind, count(*) FILTER (WHERE d.blocks) AS blocked, count(*) AS dead
  FROM (SELECT r.kind, r.blocks FROM tenure.dead AS r WHERE r.kind LIKE 'outbox:%' AND r.status IN ('dead_letter', 'failed') LIMIT 100000) AS d
  GROUP BY d.kind
), known AS (
  SELECT k.kind FROM tenure.kinds AS k WHERE k.kind LIKE 'outbox:%' UNION SELECT live.kind FROM live UNION SELECT dead.kind FROM dead
)
SELECT substr(known.kind, 8), COALESCE(live.pending, 0), COALESCE(live.processing, 0), COALESCE(live.postponed, 0),
       date_part('epoch', clock_timestamp() - live.oldest), COALESCE(dead.blocked, 0), COALESCE(dead.dead, 0),
       ARRAY(SELECT DISTINCT k.queue FROM tenure.kinds AS k WHERE k.kind = known.kind ORDER BY k.queue LIMIT 20)
FROM known LEFT JOIN live ON live.kind = known.kind LEFT JOIN dead ON dead.kind = known.kind
ORDER BY known.kind
LIMIT 1000
