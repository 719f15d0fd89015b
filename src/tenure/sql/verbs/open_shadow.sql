-- open_shadow: make the tables of a projection anew and empty beside the old ones; how far they are filled
-- in: projection text
-- out: position bigint
SELECT o.position FROM tenure.open_shadow(:projection) AS o (position)
