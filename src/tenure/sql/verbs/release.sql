-- release: give these rows back: pending at once (or after a delay), and the attempt is not counted
-- in: ids uuid[], generations bigint[], fences bigint[], errors text[], delays float8[] (NULL: at once)
-- out: id, fence_token, next_status, next_at
SELECT ended.row_id, ended.token, ended.next_status, ended.next_at
FROM tenure.end_attempts(:ids::uuid[], :generations::bigint[], :fences::bigint[], 'released', :errors::text[], :delays::float8[]) AS ended
