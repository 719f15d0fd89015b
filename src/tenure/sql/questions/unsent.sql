-- unsent: whether an event of an outbox waits in a queue, or is being sent
-- in: queue text, kind text
-- out: waits
SELECT EXISTS (SELECT FROM tenure.live AS i WHERE i.queue = :queue AND i.kind = :kind)
