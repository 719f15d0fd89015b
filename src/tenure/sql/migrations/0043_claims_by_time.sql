-- Unordered rows are claimed by time alone: an index less for each row that comes in.
-- kind: expand

-- Workers have claimed them by time, whatever the bucket, since 0013_claims.sql: only order needs an owner.
DROP INDEX tenure.live_ready;
