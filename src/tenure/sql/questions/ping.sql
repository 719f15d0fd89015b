-- ping: any answer, to test the session
-- in: (none)
-- out: yes
SELECT true
