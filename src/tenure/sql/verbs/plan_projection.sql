-- plan_projection: make sure that a projection has its checkpoints and a row for each shard
-- in: projection text, shards int, like_types text[], tables text[], on_error text, queue text
-- out: n int
-- why: a worker runs it before its first claim: two at once take turns by the row of the projection.
SELECT p.n FROM tenure.plan_projection(:projection, :shards::int, :like_types::text[], :tables::text[], :on_error, :queue) AS p (n)
