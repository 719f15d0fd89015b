-- cancel_flow: ask an instance to undo what it has done and to end as cancelled
-- in: row_id uuid (or NULL), named text (the idempotency key of its name), reason text
-- out: id, outcome (asked, ended, unknown)
SELECT asked.row_id, asked.outcome FROM tenure.cancel_flow(:row_id::uuid, :named::text, :reason) AS asked
