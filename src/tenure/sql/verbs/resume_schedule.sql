-- resume_schedule: let a paused schedule go on; its misfire policy says what becomes of the ticks it missed
-- in: name text
-- out: name
UPDATE tenure.schedules AS s SET paused = false, updated_at = clock_timestamp() WHERE s.name = :name RETURNING s.name
