-- A number kept free.
-- kind: expand
SELECT 1;
