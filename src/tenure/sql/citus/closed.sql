-- Nobody but the owner runs a function of the door unless it was granted: some run with the owner's rights, and Postgres lets everybody by default.
-- On the coordinator: Citus does the same on every node.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA tenure_door FROM PUBLIC;
