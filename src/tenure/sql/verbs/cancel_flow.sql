-- cancel_flow: ask an instance to undo what it has done and to end as cancelled
-- in: row_id uuid (or NULL), named text (the idempotency key of its name), reason text
-- out: id, outcome (asked, ended, unknown)
-- why: a dead letter that has not undone what it did comes back to do so, if the caller may redrive; to others it has ended.
SELECT asked.row_id, asked.outcome FROM tenure.cancel_flow(:row_id::uuid, :named::text, :reason) AS asked
