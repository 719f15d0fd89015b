-- adopt_ranges: make ranges of keys at home here, and make due what has waited for them
-- in: ranges bigint[], placed bigint[], free boolean[], upto timestamptz[], theirs bigint (the highest fence of the other inboxes)
-- out: adopted, freed
SELECT a.adopted, COALESCE(a.freed, 0)
FROM tenure.adopt(:ranges::bigint[], :placed::bigint[], :free::boolean[], :upto::timestamptz[], :theirs::bigint) AS a
