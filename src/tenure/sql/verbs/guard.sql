-- guard: end a fenced transaction with its row still held, if the lease is current and not yet over
-- in: id uuid, generation bigint, fence bigint
-- out: seconds_left, within (NULL or empty: no longer the transaction that was entered)
-- why: the row is locked to the end of the transaction, which is near: whoever would take it from its holder waits for the commit. The
-- lease is asked for under that lock. A renewal passes a locked row by, and comes again.
SELECT date_part('epoch', i.lease_expires_at - clock_timestamp()),  -- implied: it says how long, and decides nothing
       current_setting('tenure_tx.within', true)
FROM tenure.live AS i
WHERE i.id = :id
  AND i.status = 'processing'  -- implied: live_state, only a processing row has a lease
  AND i.lease_generation = :generation
  AND i.fence_token = :fence
  AND i.lease_expires_at > clock_timestamp()
FOR NO KEY UPDATE
