-- anew: give a held instance back at once with another payload and without its records: its next run
-- in: id uuid, generation bigint, fence bigint, payload jsonb
-- out: id, run
SELECT back.id, back.run FROM tenure.anew(:id::uuid, :generation, :fence, :payload::jsonb) AS back
