-- enter_shadow: let unqualified names mean the rebuilt tables, for this transaction
-- in: projection text
-- out: search_path
SELECT set_config('search_path', quote_ident(p.projection || '_next') || ', ' || current_setting('search_path'), true)
FROM tenure.projections AS p
WHERE p.projection = :projection
