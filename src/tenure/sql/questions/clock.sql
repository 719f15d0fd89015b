-- clock: the server's time, from which a new schedule counts
-- in: (none)
-- out: at
SELECT clock_timestamp()
