-- set_endpoint: change the state, the address or the kinds of an endpoint; an active one begins anew, with its circuit closed
-- in: id uuid, state text (NULL: as it is), url text (NULL: as it is), kinds text[] (NULL: as they are), note text, queue text
-- out: id, due (pending rows that are tried now)
-- why: what waited for an active one, at most 10,000 rows, is due at once; a row that is held or locked comes by itself.
WITH changed AS (
  UPDATE tenure.endpoints AS e
  SET state = COALESCE(:state::text, e.state), url = COALESCE(:url::text, e.url), kinds = COALESCE(:kinds::text[], e.kinds), note = :note::text,
      failures = 0, failing_since = NULL, open_until = NULL, probe_until = NULL
  WHERE e.id = :id::uuid
  RETURNING e.id, e.state
), waiting AS (
  SELECT i.id FROM tenure.live AS i
  WHERE i.queue = :queue
    AND EXISTS (SELECT FROM changed WHERE changed.state = 'active')
    AND i.partition_key = 'endpoint:' || :id::uuid
    AND i.status = 'pending'
    AND i.available_at > clock_timestamp()
  ORDER BY i.id
  LIMIT 10000
  FOR UPDATE SKIP LOCKED
), moved AS (
  UPDATE tenure.live AS i SET available_at = clock_timestamp() FROM waiting WHERE i.id = waiting.id RETURNING i.id
)
SELECT changed.id, (SELECT count(*) FROM moved) FROM changed
