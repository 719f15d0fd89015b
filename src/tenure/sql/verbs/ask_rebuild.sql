-- ask_rebuild: ask for a projection to be rebuilt from the first event on, by whichever worker is free
-- in: projection text, partial boolean
-- out: known, forgotten_to, row_id
-- why: its row goes where workers have declared that they take it.
SELECT a.known, a.forgotten_to, a.row_id FROM tenure.ask_rebuild(:projection, :partial::boolean) AS a
