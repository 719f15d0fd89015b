-- put_back: put signals of an instance back before all that are queued for it: they had come to branches that are not wanted any more
-- in: row_id uuid, ns bigint[] (below 0, in the order in which they had been received), names text[], payloads jsonb[]
-- out: n bigint (its number, for each)
-- why: they came before what is queued, so a wait receives all in the order in which they were sent, also if two races put some back, one
-- after the other. Numbers below 0 are given by nobody else: one between those of the sequence could be that of a signal that is not
-- committed yet. Its holder runs it, in the transaction of its record.
INSERT INTO tenure.signals (row_id, n, name, payload) OVERRIDING SYSTEM VALUE
SELECT :row_id::uuid, COALESCE(taken.n + back.place, back.n), back.name, back.payload
FROM unnest(:ns::bigint[], :names::text[], :payloads::jsonb[]) WITH ORDINALITY AS back (n, name, payload, place)
CROSS JOIN LATERAL (
  SELECT max(g.n) FILTER (WHERE EXISTS (SELECT FROM tenure.signals AS s WHERE (s.row_id, s.n) = (:row_id::uuid, back.n))) AS n
  FROM tenure.signals AS g WHERE g.row_id = :row_id::uuid AND g.n BETWEEN back.n AND back.n + 999
) AS taken
RETURNING n
