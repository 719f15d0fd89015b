-- echo: send a note on one channel
-- in: channel text, note text
-- out: told
SELECT pg_notify(:channel, :note)
