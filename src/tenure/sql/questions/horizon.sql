-- horizon: up to which position the journal can be read: no event at or below it is still to come
-- in: (none)
-- out: horizon bigint, last bigint
-- why: the last number that was given out is told beside it: between the two stands what open transactions hold back.
SELECT h.horizon, tenure.last_position() FROM tenure.horizon() AS h (horizon)
