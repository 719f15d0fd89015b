-- declare: publish how the handlers of a worker send their kinds, and forget what nobody has declared for a month
-- in: worker text, kinds text[], queues text[], keyed text[], key_templates text[], ordered boolean[], holds boolean[], priorities smallint[], max_attempts int[], encrypted boolean[]
-- out: kind
-- why: a way of sending is kept once, however many workers have it; workers that declare at once take its rows in one order
WITH said AS (
  SELECT s.kind, md5(concat_ws(chr(31), s.queue, s.keyed, COALESCE(s.key_template, ''), s.ordered, s.hold, s.priority, s.max_attempts, s.encrypted)) AS form,
         s.queue, s.keyed, s.key_template, s.ordered, s.hold, s.priority, s.max_attempts, s.encrypted
  FROM unnest(:kinds::text[], :queues::text[], :keyed::text[], :key_templates::text[], :ordered::boolean[], :holds::boolean[],
              :priorities::smallint[], :max_attempts::int[], :encrypted::boolean[])
    AS s (kind, queue, keyed, key_template, ordered, hold, priority, max_attempts, encrypted)
), forgotten AS (
  DELETE FROM tenure.kinds AS k
  USING (SELECT old.kind, old.form FROM tenure.kinds AS old
         WHERE old.seen_at < clock_timestamp() - interval '30 days'  -- implied: a month need not be exact to the transaction
           AND NOT EXISTS (SELECT FROM said WHERE said.kind = old.kind AND said.form = old.form)  -- implied: what the INSERT changes first is not deleted; that it is first is not promised
         ORDER BY old.kind, old.form
         LIMIT 1000
         FOR UPDATE SKIP LOCKED) AS gone
  WHERE k.kind = gone.kind
    AND k.form = gone.form
)
INSERT INTO tenure.kinds AS k (kind, form, queue, keyed, key_template, ordered, hold, priority, max_attempts, encrypted, worker, started_at, seen_at)
SELECT s.kind, s.form, s.queue, s.keyed, s.key_template, s.ordered, s.hold, s.priority, s.max_attempts, s.encrypted, :worker,
       COALESCE((SELECT w.started_at FROM tenure.workers AS w WHERE w.id = :worker),
                clock_timestamp()), clock_timestamp()  -- implied: the hour need not be exact to the transaction
FROM said AS s
ORDER BY s.kind, s.form
ON CONFLICT (kind, form) DO UPDATE
SET worker = EXCLUDED.worker, started_at = GREATEST(k.started_at, EXCLUDED.started_at), seen_at = EXCLUDED.seen_at
RETURNING k.kind
