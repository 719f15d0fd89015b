-- drained: what is printed must not run while workers are alive that use what it removes
DO $drained$
DECLARE
  late text := (SELECT string_agg(w.id, ', ' ORDER BY w.id) FROM tenure.workers AS w
                WHERE w.status <> 'dead' AND COALESCE((w.metadata ->> 'migration')::int, 9) < :'migration'
                  AND CASE WHEN w.presence IS NULL THEN w.last_seen_at > clock_timestamp() - interval '30 seconds'
                           ELSE w.presence = ANY (ARRAY(SELECT tenure.presences())) END);
BEGIN
  IF late IS NOT NULL THEN
    RAISE EXCEPTION 'workers of an older version are alive (%), and this removes what they use: drain them first', late;
  END IF;
END
$drained$;
