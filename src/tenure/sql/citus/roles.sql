-- The four roles at the door: nobody reads or changes its tables, and whoever may enqueue calls its functions.
-- On the coordinator: Citus makes the roles on all nodes, and carries every grant there.

DO $make$
DECLARE
  role text;
BEGIN
  FOREACH role IN ARRAY ARRAY['tenure_producer', 'tenure_worker', 'tenure_operator', 'tenure_readonly'] LOOP
    IF to_regrole(role) IS NULL THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN', role);
    END IF;
  END LOOP;
END
$make$;

REVOKE ALL ON tenure_door.keys, tenure_door.idempotency, tenure_door.inboxes, tenure_door.together
  FROM PUBLIC, tenure_producer, tenure_worker, tenure_operator, tenure_readonly;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tenure_door FROM PUBLIC, tenure_producer, tenure_worker, tenure_operator, tenure_readonly;
REVOKE ALL ON SCHEMA tenure_door FROM PUBLIC, tenure_producer, tenure_worker, tenure_operator, tenure_readonly;
GRANT USAGE ON SCHEMA tenure_door TO tenure_producer, tenure_worker, tenure_operator, tenure_readonly;

-- Everybody may ask which inboxes there are, and where a key belongs: Citus tells that to who may read `keys`, which has no rows.
GRANT SELECT ON tenure_door.inboxes, tenure_door.keys TO tenure_producer, tenure_worker, tenure_operator, tenure_readonly;
GRANT EXECUTE ON FUNCTION tenure_door.nodes, tenure_door.members, tenure_door.here, tenure_door.home, tenure_door.range_of
  TO tenure_producer, tenure_worker, tenure_operator, tenure_readonly;

-- Enqueue. put, put_many, take_key and note_key run with the owner's rights, on the node of their key: they write a row, and an idempotency key
-- that has none yet. hold_range and commit_together lock a range until the transaction ends, as every enqueue does.
GRANT EXECUTE ON FUNCTION tenure_door.enqueue, tenure_door.enqueue_one, tenure_door.enqueue_keyed, tenure_door.enqueue_again, tenure_door.enqueue_unique,
  tenure_door.enqueue_many, tenure_door.send, tenure_door.put, tenure_door.put_some, tenure_door.put_many, tenure_door.take_key, tenure_door.note_key,
  tenure_door.hash_of, tenure_door.hold_range, tenure_door.commit_together, tenure_door.alone TO tenure_producer, tenure_worker, tenure_operator;

-- Read which ranges are where, and how many rows.
GRANT EXECUTE ON FUNCTION tenure_door.place, tenure_door.ranges_here, tenure_door.counts TO tenure_worker, tenure_operator, tenure_readonly;

-- A chore of workers; it runs with the owner's rights.
GRANT EXECUTE ON FUNCTION tenure_door.forget TO tenure_worker;
