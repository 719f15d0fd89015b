-- enter_batch: begin the transaction of a batch: lock the shard's checkpoint, if the lease is current and not yet over
-- in: projection text, shard int, id uuid, generation bigint, fence bigint
-- out: seconds_left, timeout, within (a mark that ends with the transaction: its last statement looks for it), entered (another, which stays in the session if it is committed)
-- why: locked before the author's tables are: whoever swaps them takes the checkpoints first, too. If its client falls silent,
-- the server ends the transaction at the end of the lease.
SELECT date_part('epoch', i.lease_expires_at - clock_timestamp()),
       set_config('idle_in_transaction_session_timeout',
                  ceil(1000 * date_part('epoch', i.lease_expires_at - clock_timestamp()))::int::text, true),
       set_config('tenure_tx.within', 'yes', true),
       set_config('tenure_tx.entered', clock_timestamp()::text, false)  -- implied: any mark of its own would do
FROM tenure.checkpoints AS c JOIN tenure.live AS i ON i.id = :id
WHERE c.projection = :projection
  AND c.shard = :shard::int
  AND i.status = 'processing'  -- implied: live_state, only a processing row has a lease
  AND i.lease_generation = :generation
  AND i.fence_token = :fence
  AND i.lease_expires_at > clock_timestamp()
FOR UPDATE OF c
