-- use_token: whose token this is, and what it allows
-- in: id text, hash bytea
-- out: name, role, queues (NULL: all), reveal, expired, revoked
SELECT u.name, u.role, u.queues, u.reveal, u.expired, u.revoked FROM tenure.use_token(:id, :hash) AS u
