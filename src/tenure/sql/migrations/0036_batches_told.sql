-- That a batch has ended is told once, whoever ended it.
-- kind: expand

ALTER TABLE tenure.groups ADD COLUMN told boolean NOT NULL DEFAULT false;
UPDATE tenure.groups AS g SET told = true WHERE g.ended_at IS NOT NULL;  -- implied: long over, nobody waits to hear of them
CREATE INDEX groups_untold ON tenure.groups (id) WHERE ended_at IS NOT NULL AND NOT told;
INSERT INTO tenure.chores (name, every_seconds) VALUES ('batches', 2);
