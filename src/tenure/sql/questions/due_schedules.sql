-- due_schedules: schedules that are due and not paused, page by page in name order, with the current time
-- in: after text (the last name of the page before), n int
-- out: name, cron, zone, misfire, next_at, at
-- why: by name, not by time: schedules that no process can read stay due, and must not fill the first page for ever.
SELECT s.name, s.cron, s.zone, s.misfire, s.next_at, statement_timestamp()
FROM tenure.schedules AS s
WHERE s.name > :after
  AND s.next_at <= statement_timestamp()
  AND NOT s.paused
ORDER BY s.name
LIMIT :n
