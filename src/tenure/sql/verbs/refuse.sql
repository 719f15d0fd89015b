-- refuse: keep writes that were refused, each with what it was of
-- in: refusals text (JSON)
-- out: n
-- why: rare and precious: the proof that the fence held. Flushed, unlike the tally.
SELECT noted.n FROM tenure.note_refusals(:refusals::jsonb) AS noted (n)
