-- fence: admit a write to a resource under this fence, unless it has seen a newer one
-- in: resource text, fence bigint
-- out: fence_token
-- why: the row stays locked until the caller's transaction ends, so that no other write comes between check and write.
INSERT INTO tenure.fences AS f (resource, fence_token) VALUES (:resource, :fence)
ON CONFLICT (resource) DO UPDATE SET fence_token = EXCLUDED.fence_token, written_at = clock_timestamp()
  WHERE f.fence_token <= EXCLUDED.fence_token
RETURNING f.fence_token
