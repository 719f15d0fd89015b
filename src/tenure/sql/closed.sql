-- closed: nobody but the owner runs a function of this schema unless it was granted; Postgres lets everybody by default
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA tenure FROM PUBLIC;
