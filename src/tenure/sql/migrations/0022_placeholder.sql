-- Nothing: the number belongs to another change.
-- kind: expand

SELECT 1;
