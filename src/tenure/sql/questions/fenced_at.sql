-- fenced_at: the highest fence a resource has seen
-- in: resource text
-- out: fence_token
SELECT f.fence_token FROM tenure.fences AS f WHERE f.resource = :resource
