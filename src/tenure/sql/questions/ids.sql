-- ids: the ids of the newest rows that match a filter, with how far was looked; the last line has no id
-- in: filter jsonb, before uuid, n int, search_max int, search_seconds float8
-- out: searched, next uuid, id
-- why: for actions on all matching rows: asked again to the end, it leaves no row out, not even a held one.
SELECT found.searched, found.next, found.id
FROM tenure.search(:filter::jsonb, :before::uuid, :n::int, :search_max::int, :search_seconds::float8, true, false) AS found
ORDER BY found.id DESC NULLS LAST
LIMIT :n::int + 1
