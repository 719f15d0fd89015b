-- last_look: may the door forget this inbox, until this transaction ends? No row is sent to it meanwhile
-- in: (none)
-- out: alone (no open or prepared transaction has sent it a row), ranges (of keys that are here)
SELECT pg_try_advisory_xact_lock(hashtextextended('tenure_door', 'tenure_door.inboxes'::regclass::oid::bigint)),
       (SELECT count(*)::int FROM tenure_door.ranges_here())
