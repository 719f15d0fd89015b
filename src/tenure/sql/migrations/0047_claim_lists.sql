-- The list of what a claim took is kept as it is: five hundred ids are noise to a compressor, which tried all the same.
-- kind: expand

ALTER TABLE tenure.claims ALTER COLUMN ids SET STORAGE EXTERNAL;
