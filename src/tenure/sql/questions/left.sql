-- left: how far a row is, what it returned, and of which batch it is
-- in: id uuid
-- out: at, share, note, value text (JSON), batch bigint, uncounted boolean (the batch had ended when the row was redriven)
SELECT p.at, p.share, p.note, r.value::text, abs(i.counted) >> 6 AS batch, COALESCE(i.counted < 0, false) AS uncounted
FROM (SELECT :id::uuid AS id) AS asked
LEFT JOIN tenure.progress AS p ON p.row_id = asked.id
LEFT JOIN LATERAL (SELECT kept.value FROM tenure.results AS kept WHERE kept.row_id = asked.id LIMIT 1) AS r ON true
LEFT JOIN LATERAL (SELECT found.counted FROM tenure.inbox AS found WHERE found.id = asked.id LIMIT 1) AS i ON true
LIMIT 1
