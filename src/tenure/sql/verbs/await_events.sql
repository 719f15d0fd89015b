-- await_events: say that this process waits for events and wants a note, for so many seconds; 0: it no longer does
-- in: name text, seconds float8
-- out: channel
-- why: writers notify only while somebody waits: every NOTIFY takes a lock of the whole database at commit. Not flushed: a wish
-- forgotten in a crash of the server is said again.
WITH loose AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true)
), gone AS (
  DELETE FROM tenure.tails AS t WHERE t.until < clock_timestamp() - interval '1 hour'  -- implied: only tidies up
    AND t.name <> :name  -- implied: as above
), said AS (
  INSERT INTO tenure.tails AS t (name, until)
  SELECT :name, clock_timestamp() + :seconds * interval '1 second' FROM loose
  ON CONFLICT (name) DO UPDATE SET until = EXCLUDED.until
  RETURNING t.name
)
SELECT tenure.channel() || '_journal' FROM said
