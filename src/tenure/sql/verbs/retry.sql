-- retry: end these attempts as failures that may be tried again: pending with backoff, or dead_letter when attempts are used up
-- in: ids uuid[], generations bigint[], fences bigint[], errors text[], delays float8[] (NULL: backoff)
-- out: id, fence_token, next_status, next_at
SELECT ended.row_id, ended.token, ended.next_status, ended.next_at
FROM tenure.end_attempts(:ids::uuid[], :generations::bigint[], :fences::bigint[], 'retried', :errors::text[], :delays::float8[]) AS ended
