-- await_end: say that somebody waits for the end of a row, for so long
-- in: id uuid, seconds float8
-- out: channel text (where a note comes with its id, when its result is there)
-- why: nobody else is told: every note takes a lock of the whole database at commit.
INSERT INTO tenure.watched AS a (row_id, until) VALUES (:id::uuid, clock_timestamp() + :seconds::float8 * interval '1 second')
ON CONFLICT (row_id) DO UPDATE SET until = GREATEST(a.until, EXCLUDED.until)
RETURNING tenure.channel() || '_ended'
