-- count: how many rows match a filter, counted up to cap - 1 in each table and for so many seconds
-- in: filter jsonb, places text[], cap int (NULL: exactly), seconds float8 (NULL: however long)
-- out: n, more (at least so many)
SELECT count(found.id)::int, COALESCE(count(found.id) >= :cap::int OR bool_or(found.id IS NULL AND found.next IS NOT NULL), false)
FROM unnest(:places::text[]) AS p (place)
CROSS JOIN LATERAL tenure.search(
  :filter::jsonb || jsonb_build_object('places', ARRAY[p.place]), NULL, :cap::int, NULL, :seconds::float8,
  :cap::int IS NULL, :cap::int IS NOT NULL) AS found
