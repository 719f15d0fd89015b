-- live_pages: how many pages the hot table has
-- in: (none)
-- out: pages
SELECT pg_relation_size('tenure.live') / current_setting('block_size')::int
