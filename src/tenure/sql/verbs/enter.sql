-- enter: begin a fenced transaction: is this lease current, and not yet over?
-- in: id uuid, generation bigint, fence bigint
-- out: seconds_left, timeout
-- why: should its client fall silent inside it, the server ends the transaction when the lease was to end. What it has
-- locked would otherwise keep the next holder waiting for as long as a stopped process stays stopped.
SELECT date_part('epoch', i.lease_expires_at - clock_timestamp()),
       set_config('idle_in_transaction_session_timeout',
                  ceil(1000 * date_part('epoch', i.lease_expires_at - clock_timestamp()))::int::text, true)
FROM tenure.live AS i
WHERE i.id = :id
  AND i.status = 'processing'  -- implied: live_owned_or_free, only a processing row has a lease
  AND i.lease_generation = :generation
  AND i.fence_token = :fence
  AND i.lease_expires_at > clock_timestamp()
