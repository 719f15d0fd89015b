-- last_said: the number of the limit over several inboxes that came to this queue last; also if another one was set since
-- in: queue text
-- out: said
SELECT COALESCE(max(s.said), 0)
FROM tenure.shares AS s
WHERE s.queue = :queue
