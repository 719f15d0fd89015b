-- tables_written: how often this transaction, and what its session has not reported yet, wrote to each table
-- in: projection text
-- out: name, n bigint
-- why: asked before and after a batch of a rebuild: a table that is not among the rebuilt ones must not have changed.
SELECT format('%I.%I', s.schemaname, s.relname), s.n_tup_ins + s.n_tup_upd + s.n_tup_del
FROM pg_catalog.pg_stat_xact_user_tables AS s
WHERE s.n_tup_ins + s.n_tup_upd + s.n_tup_del > 0
  AND s.schemaname <> :projection || '_next'
  AND s.relid <> ALL (ARRAY['tenure.checkpoints'::regclass, 'tenure.live'::regclass, 'tenure.skipped'::regclass, 'tenure.projections'::regclass])
