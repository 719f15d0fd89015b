-- note_backlog: write down how many rows of the longest queues are due now, and of all others together
-- in: looks int (at rows, in all queues together), longest int (queues), slower float8 (so many times longer than it takes until the next one)
-- out: queues
-- why: what a worker counts says what ended, not what waits. However many queues and rows there are, it costs no more looks; where
-- they did not suffice, the number is the least there are, and says so. Not flushed, and a lock that is not to be had within a
-- tenth of a second is an error: a picture stands in the way of nobody.
WITH quickly AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true)
)
SELECT tenure.add_backlog(:looks::int, :longest::int, :slower) FROM quickly
