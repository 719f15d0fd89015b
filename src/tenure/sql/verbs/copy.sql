-- copy: stream rows into the inbox, the quickest way in; no idempotency keys
-- in: (rows on the wire)
-- out: (none)
COPY tenure.live (kind, payload, partition_key, queue, priority, available_at, max_attempts, ordered, hold, headers) FROM STDIN
