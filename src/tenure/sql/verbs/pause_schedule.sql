-- pause_schedule: let a schedule enqueue nothing until it is resumed; a tick that comes due meanwhile is a missed one
-- in: name text
-- out: name
UPDATE tenure.schedules AS s SET paused = true, updated_at = clock_timestamp() WHERE s.name = :name RETURNING s.name
