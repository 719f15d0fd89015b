-- note_reading: begin a line of the audit about something that was read, or tried in vain
-- in: actor text, via text, verb text, target text, reason text
-- out: id
SELECT tenure.note_reading(:actor, :via, :verb, :target, :reason)
