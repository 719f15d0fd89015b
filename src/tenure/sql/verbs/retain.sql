-- retain: say how long the completed and cancelled rows of a queue are kept; NULL: as long as housekeeping is told
-- in: queue text, retention_seconds float8
-- out: queue
-- why: days that were looked through under the old setting are looked through again: thinned has a hash of the settings.
INSERT INTO tenure.queues AS q (queue, retention_seconds) VALUES (:queue, :retention_seconds::float8)
ON CONFLICT (queue) DO UPDATE
SET retention_seconds = EXCLUDED.retention_seconds,
    updated_at = clock_timestamp()  -- implied: people read it, to the second
RETURNING q.queue
