-- refuse: keep refused writes, each with its row and token
-- in: refusals text (JSON)
-- out: n
-- why: rare and important: the proof that the fence worked. Flushed, unlike the tally.
SELECT noted.n FROM tenure.note_refusals(:refusals::jsonb) AS noted (n)
