-- register: add a worker to the registry as alive; an id is used once
-- in: worker text, metadata text (JSON)
-- out: id
INSERT INTO tenure.workers (id, metadata) VALUES (:worker, :metadata::jsonb) ON CONFLICT (id) DO NOTHING RETURNING id
