-- Workflows: one that is to stop comes before the rows of its queue. Its own children stood in line before it, and all of them ran first.
-- kind: expand

-- Just before the first row that waits in its lane, and not before rows that are older than it. Now, if nobody waits. Workers search from
-- the last row that they have seen: a note tells also those that are busy to look further back.
CREATE FUNCTION tenure.first_in_line(of_row uuid) RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT LEAST(clock_timestamp(), r.available_at - interval '1 microsecond')
  FROM tenure.live AS i
  LEFT JOIN LATERAL (
    SELECT r.available_at FROM tenure.live AS r
    WHERE NOT r.ordered
      AND r.seq < 9223372036854775807  -- implied: always so; lets live_due serve and no other index
      AND r.queue = i.queue AND r.priority = i.priority AND r.available_at >= i.created_at AND r.available_at <= clock_timestamp()
      AND r.status = 'pending' AND r.id <> i.id
    ORDER BY r.available_at LIMIT 1
  ) AS r ON true
  WHERE i.id = of_row
$$;

-- As in 0025_groups.sql; a flow whose group has failed and has not ended comes first.
CREATE OR REPLACE FUNCTION tenure.follow(of_group tenure.groups) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  of_queue text;
BEGIN
  PERFORM tenure.make_due(
    ARRAY[of_group.then_row] || COALESCE((SELECT g.members FROM tenure.groups AS g WHERE g.id = of_group.then_group), '{}'),
    jsonb_build_object('tenure-batch', of_group.id::text, 'tenure-ended', of_group.size::text, 'tenure-failed', of_group.failed::text,
                       'tenure-cancelled', of_group.cancelled::text));
  IF of_group.ended_at IS NULL THEN
    UPDATE tenure.live AS i SET available_at = tenure.first_in_line(i.id)
    WHERE i.id = of_group.then_row AND i.status = 'pending' AND i.headers ? 'tenure-flow'
    RETURNING i.queue INTO of_queue;
    IF FOUND THEN
      PERFORM tenure.wake_for(of_queue, NULL, false);
    END IF;
  END IF;
END
$$;

-- As in 0034_flow_days.sql; it comes first.
CREATE OR REPLACE FUNCTION tenure.stop_flow(of_row uuid, named text, reason text, OUT row_id uuid, OUT outcome text) LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  of_queue text;
BEGIN
  row_id := COALESCE(of_row, (SELECT k.row_id FROM tenure.idempotency AS k WHERE k.key = named));
  UPDATE tenure.live AS i
  SET headers = i.headers || jsonb_build_object('tenure-cancel', COALESCE(i.headers ->> 'tenure-cancel', NULLIF(reason, ''), 'on request')),
      available_at = CASE WHEN i.status = 'pending' THEN LEAST(i.available_at, tenure.first_in_line(i.id)) ELSE i.available_at END
  WHERE i.id = stop_flow.row_id AND i.headers ? 'tenure-flow'
  RETURNING i.queue INTO of_queue;
  IF FOUND THEN
    PERFORM tenure.wake_for(of_queue, NULL, false);
    outcome := 'asked';
  ELSE
    outcome := CASE WHEN EXISTS (SELECT FROM tenure.inbox AS i WHERE i.id = stop_flow.row_id AND i.headers ? 'tenure-flow') THEN 'ended' ELSE 'unknown' END;
  END IF;
END
$$;
