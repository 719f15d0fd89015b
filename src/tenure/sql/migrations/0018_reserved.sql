-- A place for another change of this release.
-- kind: expand
SELECT 1;
