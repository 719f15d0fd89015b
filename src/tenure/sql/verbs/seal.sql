-- seal: link lines of the audit that are not in its chain yet
-- in: most int
-- out: links (how many; NULL: another session links them now)
SELECT tenure.seal_audit(:most)
