-- swap_shadow: put the rebuilt tables of a projection in the place of the old ones, with all checkpoints
-- in: projection text, shards int, upto bigint
-- out: how, within (NULL or empty: no longer the transaction that was entered)
SELECT s.how, current_setting('tenure_tx.within', true) FROM tenure.swap_shadow(:projection, :shards::int, :upto::bigint) AS s (how)
