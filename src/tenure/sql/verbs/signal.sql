-- signal: send a signal to an instance in the caller's transaction: into the step that waits for it, else it is kept until asked for
-- in: row_id uuid (or NULL), named text (the idempotency key of its name), signal text, payload jsonb, once text (or NULL)
-- out: id, outcome (delivered, queued, duplicate, ended, unknown)
SELECT sent.row_id, sent.outcome FROM tenure.signal(:row_id::uuid, :named::text, :signal, :payload::jsonb, :once::text) AS sent
