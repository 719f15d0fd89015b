-- notice: see which workers' sessions are gone and which are back; gone for longer than the grace, a worker is dead
-- in: grace_seconds float8
-- out: id, seen (gone, back, dead)
-- why: only workers that have shown presence are judged by it. One that was paused is still there: its lease decides.
WITH judged AS (
  SELECT w.id, w.status, w.gone_at, w.presence = ANY (ARRAY(SELECT tenure.presences())) AS present
  FROM tenure.workers AS w
  WHERE w.presence IS NOT NULL
  ORDER BY w.id
  FOR UPDATE SKIP LOCKED
), seen AS (
  SELECT j.id,
         CASE WHEN j.present AND j.gone_at IS NOT NULL THEN 'back'
              WHEN NOT j.present AND j.gone_at IS NULL THEN 'gone'
              WHEN NOT j.present AND j.gone_at < clock_timestamp() - :grace_seconds * interval '1 second'
                   AND j.status <> 'dead' THEN 'dead' END AS what
  FROM judged AS j
)
UPDATE tenure.workers AS w
SET gone_at = CASE seen.what WHEN 'back' THEN NULL WHEN 'gone' THEN clock_timestamp() ELSE w.gone_at END,
    status = CASE seen.what WHEN 'dead' THEN 'dead' ELSE w.status END,
    waiting = w.waiting AND seen.what = 'back'
FROM seen
WHERE w.id = seen.id
  AND seen.what IS NOT NULL
RETURNING w.id, seen.what
