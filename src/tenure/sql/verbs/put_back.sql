-- put_back: put signals of an instance back before all that are queued for it: they had come to branches that are not wanted any more
-- in: row_id uuid, names text[], payloads jsonb[] (those that came first, first)
-- out: n bigint (its number, for each)
-- why: they came before what is queued, so a wait receives all in the order in which they were sent. Numbers below 0 are given by nobody
-- else: one between those of the sequence could be that of a signal that is not committed yet. Its holder runs it, in the transaction of its record.
INSERT INTO tenure.signals (row_id, n, name, payload) OVERRIDING SYSTEM VALUE
SELECT :row_id::uuid, LEAST(0, first.n) - cardinality(:names::text[]) + back.place - 1, back.name, back.payload
FROM unnest(:names::text[], :payloads::jsonb[]) WITH ORDINALITY AS back (name, payload, place)
CROSS JOIN (SELECT min(g.n) AS n FROM tenure.signals AS g WHERE g.row_id = :row_id::uuid) AS first
RETURNING n
