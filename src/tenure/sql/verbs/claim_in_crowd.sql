-- claim_in_crowd: take the n unordered rows that have been due longest, where many claim at once: a few of them search at a time
-- in: worker text, claim_id bigint, lease_seconds float8, n int, seen_epoch int
-- in: queues text[], priorities smallint[] (the lanes, most urgent first), floors float8[] (epoch seconds, one a lane)
-- in: buckets int[] (only rows of these; NULL: of all)
-- out: id, kind, queue, partition_key, partition_bucket, payload, attempts, max_attempts, available_seconds, lease_generation, fence_token, ends_seconds, headers, seq, priority (rows as they lie on the pages: the caller puts them in order)
-- why: hundreds of rows that others have locked cost a claim more than those that it takes. It is one statement, so that nobody has a
-- place while its client waits for a processor, and a transaction of its own, so that nobody who waits for a place holds what another
-- needs: after a write it takes none. The search is in the function: it must see what was claimed while it waited, and a
-- statement sees only what was before. Alone it takes longer than claim does: see the worker's Crowd.
SELECT c.id, c.kind, c.queue, c.partition_key, c.partition_bucket, c.payload, c.attempts, c.max_attempts, c.available_seconds,
       c.lease_generation, c.fence_token, c.ends_seconds, c.headers, c.seq, c.priority
FROM tenure.claim_in_crowd(:worker, :claim_id, :lease_seconds, :n, :seen_epoch, :queues::text[], :priorities::smallint[], :floors::float8[],
                           :buckets::int[]) AS c
