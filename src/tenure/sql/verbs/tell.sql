-- tell: send a note to every worker that listens
-- in: note text
-- out: told
SELECT pg_notify(tenure.channel(), :note)
