-- ping: is anybody there?
-- in: (none)
-- out: yes
SELECT true
