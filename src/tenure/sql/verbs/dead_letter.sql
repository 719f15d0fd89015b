-- dead_letter: end these rows as dead letters, for an operator to look at
-- in: ids uuid[], generations bigint[], fences bigint[], errors text[]
-- out: id, fence_token, next_status, next_at
SELECT ended.row_id, ended.token, ended.next_status, ended.next_at
FROM tenure.end_attempts(:ids::uuid[], :generations::bigint[], :fences::bigint[], 'dead_lettered', :errors::text[], NULL) AS ended
