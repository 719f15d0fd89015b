-- audit_chain: the two ends of the audit's chain, and how many lines are not in it yet
-- in: (none)
-- out: anchor_seq, anchor_hash, tip_seq, tip_hash, unsealed, stray (the first line that says it is in the chain and is not)
SELECT c.anchor_seq, c.anchor_hash, c.tip_seq, c.tip_hash,
       (SELECT count(*) FROM tenure.audit AS a
        WHERE NOT a.sealed
          AND (a.done_at IS NOT NULL OR NOT EXISTS (SELECT FROM tenure.audit_links AS l WHERE l.line = a.id))),
       (SELECT min(a.id) FROM tenure.audit AS a
        WHERE a.sealed AND NOT EXISTS (SELECT FROM tenure.audit_links AS l WHERE l.line = a.id))
FROM tenure.audit_chain AS c
