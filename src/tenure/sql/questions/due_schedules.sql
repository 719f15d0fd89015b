-- due_schedules: what is due now and not paused, page by page in name order, with the time of the question
-- in: after text (the last name of the page before), n int
-- out: name, cron, zone, misfire, next_at, at
-- why: by name and not by time: schedules that nobody here can read stay due, and must not fill the first page for ever.
SELECT s.name, s.cron, s.zone, s.misfire, s.next_at, statement_timestamp()
FROM tenure.schedules AS s
WHERE s.name > :after
  AND s.next_at <= statement_timestamp()
  AND NOT s.paused
ORDER BY s.name
LIMIT :n
