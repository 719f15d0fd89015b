-- open_group: put rows into the inbox that are counted when they end, with what follows the last of them, in the caller's own transaction
-- in: kinds text[], payloads jsonb[], partition_keys text[], queues text[], priorities smallint[], ats timestamptz[], delays float8[], max_attempts int[], ordered boolean[], holds boolean[], headers jsonb[]
-- in: name text, then_row uuid, then_group bigint, stop_on_failure boolean
-- out: id bigint, ids uuid[]
-- why: the group is closed when it is sent: its size is known before its first row ends.
SELECT made.group_id, made.ids
FROM tenure.enqueue_group(:kinds::text[], :payloads::jsonb[], :partition_keys::text[], :queues::text[], :priorities::smallint[],
                          :ats::timestamptz[], :delays::float8[], :max_attempts::int[], :ordered::boolean[], :holds::boolean[],
                          :headers::jsonb[], :name::text, :then_row::uuid, :then_group::bigint, :stop_on_failure::boolean) AS made
