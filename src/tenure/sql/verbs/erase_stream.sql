-- erase_stream: delete a stream with all its events and what projections have skipped of it
-- in: stream text
-- out: n bigint
-- why: tables that projections have made of it are their author's: rebuild them, or delete there too.
SELECT e.n FROM tenure.erase_stream(:stream) AS e (n)
