-- fail: end these rows for good: the handler declared a permanent error
-- in: ids uuid[], generations bigint[], fences bigint[], errors text[]
-- out: id, fence_token, next_status, next_at
SELECT ended.row_id, ended.token, ended.next_status, ended.next_at
FROM tenure.end_attempts(:ids::uuid[], :generations::bigint[], :fences::bigint[], 'failed', :errors::text[], NULL) AS ended
