-- recall: what is recorded of these runs
-- in: ids uuid[], runs int[]
-- out: id, path, n, name, state, args_hash, tries, recorded_at, over boolean, result, error, until (epoch seconds)
SELECT s.row_id, s.path, s.n, s.name, s.state, s.args_hash, s.tries, date_part('epoch', s.recorded_at), s.until <= clock_timestamp(), s.result::text, s.error,
       date_part('epoch', s.until)
FROM unnest(:ids::uuid[], :runs::int[]) AS w (id, run)
CROSS JOIN LATERAL (
  SELECT s.row_id, s.path, s.n, s.name, s.state, s.args_hash, s.tries, s.recorded_at, s.until, s.result, s.error
  FROM tenure.steps AS s WHERE s.row_id = w.id AND s.run = w.run ORDER BY s.row_id, s.run, s.path, s.n LIMIT 11000
) AS s
