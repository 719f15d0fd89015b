-- ask_rebuild: ask for a projection to be rebuilt from the first event on, by whichever worker is free
-- in: projection text, partial boolean, queue text
-- out: known, forgotten_to, row_id
SELECT a.known, a.forgotten_to, a.row_id FROM tenure.ask_rebuild(:projection, :partial::boolean, :queue) AS a
