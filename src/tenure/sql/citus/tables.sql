-- What the door remembers, spread by Citus: which node a key belongs to, which idempotency keys are taken, which nodes have an inbox.
-- `keys` has no rows: its ranges are the map. The text in quotes names a table of yours whose ranges stay with them.
-- `together` has none either, and is on the coordinator alone: see commit_together.
SET LOCAL citus.multi_shard_modify_mode TO 'sequential';
CREATE SCHEMA tenure_door;
CREATE TABLE tenure_door.keys (partition_key text PRIMARY KEY);
CREATE TABLE tenure_door.idempotency (key text PRIMARY KEY, row_id uuid, content_hash bytea NOT NULL, created_at timestamptz NOT NULL);
CREATE TABLE tenure_door.inboxes (group_id int PRIMARY KEY);
CREATE TABLE tenure_door.together (n int PRIMARY KEY);
SELECT create_distributed_table('tenure_door.keys', 'partition_key', colocate_with => :'colocate_with');
SELECT create_distributed_table('tenure_door.idempotency', 'key', colocate_with => 'tenure_door.keys');
SELECT create_reference_table('tenure_door.inboxes');
SELECT citus_add_local_table_to_metadata('tenure_door.together');
