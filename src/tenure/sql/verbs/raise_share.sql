-- raise_share: let this inbox use its whole share of a limit over several inboxes
-- in: queue text, said bigint, dealt bigint
-- out: raised (false: it was dealt anew, or another limit was set since)
SELECT tenure.raise_share(:queue, :said, :dealt)
