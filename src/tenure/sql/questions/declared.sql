-- declared: the ways in which a kind was declared, what a new row goes by first
-- in: kind text
-- out: kind, queue, keyed, key_template, ordered, hold, priority, max_attempts, encrypted
SELECT k.kind, k.queue, k.keyed, k.key_template, k.ordered, k.hold, k.priority, k.max_attempts, k.encrypted
FROM tenure.declared(:kind) WITH ORDINALITY AS k
ORDER BY k.ordinality
