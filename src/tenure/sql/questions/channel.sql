-- channel: the channel on which workers of this schema are woken
-- in: (none)
-- out: channel
SELECT tenure.channel()
