-- swap_shadow: put the rebuilt tables of a projection in the place of the old ones, with all checkpoints
-- in: projection text, shards int, upto bigint
-- out: how
SELECT s.how FROM tenure.swap_shadow(:projection, :shards::int, :upto::bigint) AS s (how)
