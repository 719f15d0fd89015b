-- begin_audit: begin a line of the audit: who does what, to which rows or to what name, and why
-- in: actor text, via text, verb text, target text, reason text
-- out: id
INSERT INTO tenure.audit AS a (actor, via, verb, target, reason) VALUES (:actor, :via, :verb, :target, :reason) RETURNING a.id
