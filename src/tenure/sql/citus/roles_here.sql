-- What the roles may do with the handoff, beside the inbox of each node: workers adopt ranges, everybody who reads sees what waits.
GRANT SELECT ON tenure.ranges, tenure.waiting TO tenure_worker, tenure_operator, tenure_readonly;
GRANT INSERT, UPDATE ON tenure.ranges TO tenure_worker;
GRANT DELETE ON tenure.waiting TO tenure_worker;
GRANT EXECUTE ON FUNCTION tenure.adopt TO tenure_worker;
