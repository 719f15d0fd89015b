-- tally: add what a worker counted in a few periods of ten seconds to the fleet's, and tell it the time
-- in: periods text (JSON), age_seconds float8
-- out: seconds (since 1970)
-- why: one row a period and queue however many workers, so a chart reads little. Not flushed: counts are worth less than a
-- commit. A lock that is not to be had within a tenth of a second is an error, and the worker keeps its counts for later.
WITH quickly AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true)
), added AS MATERIALIZED (
  SELECT tenure.add_tally(:periods::jsonb, :age_seconds) FROM quickly
)
SELECT date_part('epoch', clock_timestamp()) FROM added  -- implied: called in a transaction of its own
