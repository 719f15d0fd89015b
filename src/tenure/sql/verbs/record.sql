-- record: write down what steps of held instances returned; an instance whose lease is not current writes nothing
-- in: ids uuid[], generations bigint[], fences bigint[], step_ids uuid[], step_fences bigint[], runs int[], paths text[], ns int[], names text[], states text[], hashes bigint[], tries int[], results jsonb[], errors text[], show_ids uuid[], keys text[], values jsonb[]
-- out: id, cancel text (why it is to stop, NULL: it is not), moment, written boolean (false: all of it was there before), within (the mark of enter, if this is its transaction)
-- why: the lock lasts until the commit, so nobody can take the row between this look and that. A row that somebody has locked is passed
-- by and asked for again: one instance must not make the others of its batch wait. A record that has ended is never changed: sent
-- again after a lost reply, it is there. Crashes count from the last record on that says something new: attempts go back to 1. A step
-- that begins once more as it began before is nothing new, nor is what is shown, or a flow that dies in it would never be a dead letter. Who sends nothing at all says that it works.
-- What is held is looked up in a hash (IS TRUE keeps the planner from making a join of it: one that expects few rows compares each with each).
WITH moment AS MATERIALIZED (
  SELECT clock_timestamp() AS at
), held AS MATERIALIZED (
  SELECT i.id, i.attempts, i.headers ->> 'tenure-cancel' AS cancel
  FROM tenure.live AS i
  WHERE i.id = ANY (:ids::uuid[])  -- implied: the tokens name their rows; this one walks the primary key
    AND i.status = 'processing'  -- implied: live_state, only a processing row has a lease
    AND ((i.id, i.lease_generation, i.fence_token) IN (SELECT l.id, l.generation, l.fence FROM unnest(:ids::uuid[], :generations::bigint[], :fences::bigint[]) AS l (id, generation, fence))) IS TRUE
    AND i.lease_expires_at > clock_timestamp()
  ORDER BY i.id
  FOR NO KEY UPDATE SKIP LOCKED
), written AS (
  INSERT INTO tenure.steps AS s (row_id, run, path, n, name, state, fence_token, args_hash, tries, recorded_at, result, error)
  SELECT r.id, r.run, r.path, r.n, r.name, r.state, r.fence, r.hash, r.tries, moment.at, r.result, r.error
  FROM unnest(:step_ids::uuid[], :step_fences::bigint[], :runs::int[], :paths::text[], :ns::int[], :names::text[], :states::text[], :hashes::bigint[], :tries::int[],
              :results::jsonb[], :errors::text[]) AS r (id, fence, run, path, n, name, state, hash, tries, result, error)
  CROSS JOIN moment
  WHERE (r.id IN (SELECT held.id FROM held)) IS TRUE
  ON CONFLICT (row_id, run, path, n) DO UPDATE
  SET state = excluded.state, fence_token = excluded.fence_token, tries = excluded.tries, recorded_at = excluded.recorded_at, until = NULL,
      result = excluded.result, error = excluded.error
  WHERE s.state IN ('begun', 'waiting', 'retrying')
  RETURNING s.row_id
), shows AS (
  INSERT INTO tenure.shown AS v (row_id, key, value)
  SELECT r.id, r.key, r.value FROM unnest(:show_ids::uuid[], :keys::text[], :values::jsonb[]) AS r (id, key, value)
  WHERE (r.id IN (SELECT held.id FROM held)) IS TRUE
  ON CONFLICT (row_id, key) DO UPDATE SET value = excluded.value
), news AS (
  SELECT r.id
  FROM unnest(:step_ids::uuid[], :runs::int[], :paths::text[], :ns::int[], :states::text[], :tries::int[]) AS r (id, run, path, n, state, tries)
  WHERE NOT EXISTS (SELECT FROM tenure.steps AS s WHERE (s.row_id, s.run, s.path, s.n) = (r.id, r.run, r.path, r.n) AND (s.state NOT IN ('begun', 'waiting', 'retrying') OR (s.state, s.tries) = (r.state, r.tries)))
), fresh AS (
  UPDATE tenure.live AS i SET attempts = 1 FROM held
  WHERE i.id = held.id
    AND held.attempts > 1  -- implied: spares the others the write
    AND ((held.id IN (SELECT news.id FROM news)) IS TRUE OR held.id <> ALL (:step_ids::uuid[] || :show_ids::uuid[]))
)
SELECT held.id, held.cancel, date_part('epoch', moment.at), held.id IN (SELECT written.row_id FROM written), current_setting('tenure_tx.within', true) FROM held CROSS JOIN moment
