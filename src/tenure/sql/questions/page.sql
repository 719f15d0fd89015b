-- page: the newest rows that match a filter, with how far was looked; the last line has no row
-- in: filter jsonb, before uuid, n int, search_max int, search_seconds float8, head int
-- out: searched, next uuid, id, partition_key, partition_bucket, payload, status, attempts, max_attempts, claimed_by, claimed_at, lease_expires_at, lease_generation, available_at, completed_at, last_error, idempotency_key, created_at, kind, queue, priority, ordered, fence_token, cancel_asked, finished_at, finished_by, headers
-- why: found first and fetched then: what is only looked at costs its filter and nothing else. Without a head the payload is whole.
SELECT found.searched, found.next, i.id, i.partition_key, i.partition_bucket, COALESCE(left(i.payload::text, :head::int), i.payload::text), i.status, i.attempts, i.max_attempts,
       i.claimed_by, i.claimed_at, i.lease_expires_at, i.lease_generation, i.available_at, i.completed_at, i.last_error,
       i.idempotency_key, i.created_at, i.kind, i.queue, i.priority, i.ordered, i.fence_token, i.cancel_asked, i.finished_at,
       i.finished_by, i.headers::text
FROM tenure.search(:filter::jsonb, :before::uuid, :n::int, :search_max::int, :search_seconds::float8, false, false) AS found
LEFT JOIN LATERAL (
  SELECT r.id, r.partition_key, r.partition_bucket, r.payload, r.status, r.attempts, r.max_attempts, r.claimed_by, r.claimed_at,
         r.lease_expires_at, r.lease_generation, r.available_at, r.completed_at, r.last_error, r.idempotency_key, r.created_at,
         r.kind, r.queue, r.priority, r.ordered, r.fence_token, r.cancel_asked, r.finished_at, r.finished_by, r.headers
  FROM tenure.inbox AS r
  WHERE r.id = found.id
  LIMIT 1
) AS i ON true
ORDER BY i.id DESC NULLS LAST
LIMIT :n::int + 1
