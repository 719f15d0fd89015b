-- What a claim changes stands at the end of a row: no claim writes the payload to the log again.
-- kind: expand

-- An update logs neither the bytes that both versions share at the front nor those at the end. What a claim changes stood on both
-- sides of the payload, so that each claim logged all of it. No table is rewritten: a new column has a constant default, and only rows
-- that were claimed before are changed here. Of the others, the first claim writes the whole row once more. The status stands first:
-- a claim that passes held rows reads no further.
ALTER TABLE tenure.live
  ADD COLUMN new_status text NOT NULL DEFAULT 'pending',
  ADD COLUMN new_lease_generation bigint NOT NULL DEFAULT 0,
  ADD COLUMN new_fence_token bigint NOT NULL DEFAULT 0,
  ADD COLUMN new_claimed_at timestamptz,
  ADD COLUMN new_lease_expires_at timestamptz,
  ADD COLUMN new_claim_id bigint,
  ADD COLUMN new_attempts int NOT NULL DEFAULT 0,
  ADD COLUMN new_limited boolean NOT NULL DEFAULT false,
  ADD COLUMN new_claimed_by text;

UPDATE tenure.live AS i
SET new_lease_generation = i.lease_generation, new_fence_token = i.fence_token, new_claimed_at = i.claimed_at,
    new_lease_expires_at = i.lease_expires_at, new_claim_id = i.claim_id, new_attempts = i.attempts,
    new_limited = i.limited, new_status = i.status, new_claimed_by = i.claimed_by
WHERE i.status <> 'pending' OR i.lease_generation <> 0 OR i.fence_token <> 0 OR i.attempts <> 0 OR i.limited;

-- The view keeps its columns and its rights.
CREATE OR REPLACE VIEW tenure.inbox AS
  SELECT id, COALESCE(partition_key, id::text) AS partition_key,
         tenure.bucket(COALESCE(partition_key, id::text)) AS partition_bucket, payload, new_status AS status, new_attempts AS attempts,
         max_attempts, new_claimed_by AS claimed_by, new_claimed_at AS claimed_at, new_lease_expires_at AS lease_expires_at,
         new_lease_generation AS lease_generation, available_at, NULL::timestamptz AS completed_at,
         last_error, idempotency_key, created_at,
         kind, queue, priority, ordered, new_fence_token AS fence_token, cancel_asked, NULL::timestamptz AS finished_at,
         NULL::text AS finished_by, headers
  FROM tenure.live
  UNION ALL
  SELECT id, COALESCE(partition_key, id::text), tenure.bucket(COALESCE(partition_key, id::text)), payload, status, attempts, max_attempts,
         NULL, claimed_at, NULL, lease_generation, available_at, NULL,
         last_error, idempotency_key, created_at,
         kind, queue, priority, ordered, fence_token, false, finished_at, finished_by, headers
  FROM tenure.dead
  UNION ALL
  SELECT id, COALESCE(partition_key, id::text), tenure.bucket(COALESCE(partition_key, id::text)), payload, 'completed', attempts, max_attempts,
         NULL, claimed_at, NULL, lease_generation, available_at, completed_at,
         last_error, idempotency_key, created_at,
         kind, queue, priority, ordered, fence_token, false, completed_at, finished_by, headers
  FROM tenure.archive;

-- Rights, remarks and targets that the columns had; then the old ones go, and their checks with them.
DO $$
DECLARE
  made record;
  had record;
BEGIN
  FOR made IN
    SELECT old.attname AS name, old.attnum AS number, old.attacl AS rights, COALESCE(old.attstattarget, -1) AS target
    FROM pg_attribute AS old
    JOIN pg_attribute AS new ON new.attrelid = old.attrelid AND new.attname = 'new_' || old.attname
    WHERE old.attrelid = 'tenure.live'::regclass
  LOOP
    FOR had IN SELECT a.grantee, a.privilege_type, a.is_grantable FROM aclexplode(made.rights) AS a LOOP
      EXECUTE format('GRANT %s (new_%s) ON tenure.live TO %s%s', had.privilege_type, made.name,
                     CASE had.grantee WHEN 0 THEN 'PUBLIC' ELSE had.grantee::regrole::text END,
                     CASE WHEN had.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
    IF made.target >= 0 THEN
      EXECUTE format('ALTER TABLE tenure.live ALTER COLUMN new_%s SET STATISTICS %s', made.name, made.target);
    END IF;
    EXECUTE format('COMMENT ON COLUMN tenure.live.new_%s IS %L', made.name, col_description('tenure.live'::regclass, made.number));
    EXECUTE format('ALTER TABLE tenure.live DROP COLUMN %s', made.name);
    EXECUTE format('ALTER TABLE tenure.live RENAME COLUMN new_%s TO %s', made.name, made.name);
    IF EXISTS (SELECT FROM pg_constraint AS c  -- since PostgreSQL 18 what is NOT NULL has a name
               WHERE c.conrelid = 'tenure.live'::regclass AND c.conname = format('live_new_%s_not_null', made.name)) THEN
      EXECUTE format('ALTER TABLE tenure.live RENAME CONSTRAINT live_new_%s_not_null TO live_%s_not_null', made.name, made.name);
    END IF;
  END LOOP;
END
$$;

-- A row is owned wholly or not at all. The states stand first, for the planner: a question about others need not look here. That was
-- a check of its own, live_status; every statement that writes here reads them all anew.
ALTER TABLE tenure.live
  ADD CONSTRAINT live_owned_or_free CHECK (
    status IN ('pending', 'processing')
    AND num_nonnulls(claimed_by, claimed_at, lease_expires_at, claim_id) = CASE status WHEN 'pending' THEN 0 ELSE 4 END),
  ADD CONSTRAINT live_token CHECK (lease_generation BETWEEN 0 AND 1::bigint << 62) NOT VALID;
