-- roles: four group roles with the least that each needs; safe to run again, and to be run again after every migration
--
--   tenure_producer   enqueues, and sees nothing: no payload, not even its own
--   tenure_worker     claims, settles, keeps house; cannot raise or remove what ended, nor undo what an operator has set
--   tenure_operator   reads, acts on rows, queues, schedules and workers, is audited; cannot claim nor make a token good again
--   tenure_readonly   reads
--
-- None of them can log in: GRANT tenure_worker TO your_login. What is not named here is the owner's alone.

DO $make$
DECLARE
  role text;
BEGIN
  FOREACH role IN ARRAY ARRAY['tenure_producer', 'tenure_worker', 'tenure_operator', 'tenure_readonly'] LOOP
    IF to_regrole(role) IS NULL THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', role);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN
        NULL;  -- somebody made it in this very moment, for another schema
      END;
    END IF;
  END LOOP;
END
$make$;

-- From nothing: what an earlier version granted and this one does not is taken back.
REVOKE ALL ON ALL TABLES IN SCHEMA tenure FROM PUBLIC, tenure_producer, tenure_worker, tenure_operator, tenure_readonly;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA tenure FROM PUBLIC, tenure_producer, tenure_worker, tenure_operator, tenure_readonly;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tenure FROM PUBLIC, tenure_producer, tenure_worker, tenure_operator, tenure_readonly;
REVOKE ALL ON SCHEMA tenure FROM PUBLIC, tenure_producer, tenure_worker, tenure_operator, tenure_readonly;
GRANT USAGE ON SCHEMA tenure TO tenure_producer, tenure_worker, tenure_operator, tenure_readonly;

-- Everybody may ask whether this is the schema it speaks, and where a key belongs.
GRANT SELECT ON tenure.migrations TO tenure_producer, tenure_worker, tenure_operator, tenure_readonly;
GRANT EXECUTE ON FUNCTION tenure.bucket TO tenure_producer, tenure_worker, tenure_operator, tenure_readonly;

-- These functions run with the owner's rights, whoever calls them. They name every table with its schema, and the search path is
-- pinned: a caller's own function or operator of the same name cannot get in between (pg_temp is last for the same reason).
--   enqueue_group   inserts rows and counts them as a group; what follows is a row of the caller's choice, which becomes due.
--   count_ends, count_again   count rows that end or come back, and make due what follows; they are made so by their migration.
--   enqueue_one, enqueue_keyed, enqueue_again, enqueue_unique, enqueue_many   insert and look up idempotency keys; a caller learns whether its own key is taken, and by which id.
--   declared       tells how the rows of a kind are sent, and nothing else; it is made so by its migration.
--   forget_keys    forgets what claims remember of keys that have no row; it is made so by its migration.
--   keep_values    keeps the results of completed rows.   keep_results   does for them what keep_archive does for rows.
--   keep_archive   makes and drops partitions, which only an owner can; it takes two spans of time and a number.
--   take_back      takes held rows from their holders: they become pending, and no more than that.
--   note_reading, end_reading   write lines of the audit about reading, under the database user who calls; no other verb, no other's line.
--   seal_audit     links lines of the audit; it changes nothing in them.   use_token   answers whoever has the whole secret.
--   append_events  appends to a stream, and tells its version; horizon reads locks and a number; erase_stream deletes what it is named;
--   keep_journal   makes partitions and forgets what is past the retention that an operator has set; all are made so by their migration.
--   keep_flows     makes and drops partitions, like keep_archive.   anew   gives a held flow another payload, under its lease.
--   signal, stop_flow   reach one flow that lives, by its id or its name; the caller learns its id and what became of the signal.
--                  cancel_flow is stop_flow, and brings a dead letter back to undo what it did with the caller's own rights: an operator's.
--   reopen         lets a flow that comes back try again what failed. These are made so by their migration.
--   send_webhook   keeps a webhook and sends rows for it; rotate_secret   replaces a secret that nobody may read;
--   begin_delivery   tells the secrets of an endpoint to who holds a row for it; begin_webhooks   sets one limit where none is set;
--   endpoint_states   counts endpoints, and those whose secret is in clear;
--   take_share, raise_share   deal a limit over several inboxes anew: how much that is in all, only who may set limits can say; made so by their migration.
--   declare_limits   sets the limits that code declares, unless an operator has set others; made so by its migration.
--   keep_webhooks   forgets what is past retention, and never what is younger than four days. All are made so by their migration.
--   keep_history   forgets counts, refusals and memberships. What is younger than an hour is safe from both of these.
ALTER FUNCTION tenure.enqueue_one SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tenure.enqueue_again SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tenure.enqueue_unique SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tenure.enqueue_keyed SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tenure.enqueue_many SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tenure.enqueue_group SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tenure.keep_archive SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tenure.keep_results SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tenure.keep_history SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tenure.take_back SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tenure.note_reading SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tenure.end_reading SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tenure.seal_audit SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tenure.use_token SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

-- Enqueue: a call, or COPY into the columns a producer may set. Without SELECT there is no RETURNING and no ON CONFLICT.
GRANT EXECUTE ON FUNCTION tenure.publish, tenure.enqueue, tenure.enqueue_as_given, tenure.enqueue_one, tenure.enqueue_keyed, tenure.enqueue_again, tenure.enqueue_unique, tenure.enqueue_many, tenure.enqueue_group, tenure.new_id, tenure.declared, tenure.key_by,
  tenure.fault_of, tenure.bytes_of TO tenure_producer, tenure_worker, tenure_operator;
GRANT INSERT (kind, payload, partition_key, queue, priority, available_at, max_attempts, ordered, hold, headers) ON tenure.live
  TO tenure_producer, tenure_worker, tenure_operator;

-- Flows: whoever may enqueue may signal, and ask a flow that lives to stop. To raise a dead one is the operator's.
GRANT EXECUTE ON FUNCTION tenure.signal, tenure.stop_flow, tenure.cancel_flow TO tenure_producer, tenure_worker, tenure_operator;
GRANT SELECT ON tenure.steps, tenure.signals, tenure.signals_once, tenure.shown, tenure.said TO tenure_readonly, tenure_operator;
GRANT EXECUTE ON FUNCTION tenure.went_on TO tenure_readonly, tenure_operator;
GRANT DELETE ON tenure.steps, tenure.signals, tenure.signals_once, tenure.shown, tenure.said TO tenure_operator;  -- erase
GRANT SELECT, INSERT, UPDATE (state, fence_token, tries, recorded_at, until, result, error) ON tenure.steps TO tenure_worker;
GRANT SELECT, INSERT (row_id, n, name, payload), DELETE ON tenure.signals TO tenure_worker;
GRANT SELECT, INSERT, UPDATE (value) ON tenure.shown TO tenure_worker;
GRANT SELECT, INSERT (row_id, chunk) ON tenure.said TO tenure_worker;
GRANT SELECT ON tenure.groups, tenure.results TO tenure_worker;
GRANT UPDATE (told) ON tenure.groups TO tenure_worker;
GRANT EXECUTE ON FUNCTION tenure.park, tenure.anew, tenure.keep_flows, tenure.flow_lock TO tenure_worker;

-- Webhooks: a secret is read by nobody, begin_delivery alone gives it to the holder of a delivery.
GRANT EXECUTE ON FUNCTION tenure.send_webhook TO tenure_producer, tenure_worker, tenure_operator;
GRANT SELECT (id, tenant, url, kinds, state, before_until, failures, failing_since, open_until, probe_until, note, made_at) ON tenure.endpoints
  TO tenure_readonly, tenure_operator, tenure_worker;
GRANT SELECT (id, tenant, kind) ON tenure.webhooks TO tenure_readonly, tenure_operator;
GRANT SELECT ON tenure.deliveries TO tenure_readonly, tenure_operator;
GRANT SELECT, INSERT ON tenure.deliveries TO tenure_worker;
GRANT UPDATE (state, failures, failing_since, open_until, probe_until, note) ON tenure.endpoints TO tenure_worker;
GRANT EXECUTE ON FUNCTION tenure.begin_delivery, tenure.log_delivery, tenure.begin_webhooks, tenure.keep_webhooks TO tenure_worker;
GRANT EXECUTE ON FUNCTION tenure.declare_limits TO tenure_worker;
GRANT EXECUTE ON FUNCTION tenure.take_share, tenure.raise_share TO tenure_worker, tenure_operator;
GRANT SELECT ON tenure.shares TO tenure_readonly, tenure_operator, tenure_worker;
GRANT SELECT ON tenure.declared_limits TO tenure_readonly, tenure_operator;
GRANT INSERT (id, tenant, url, kinds, secret), UPDATE (state, url, kinds, failures, failing_since, open_until, probe_until, note), DELETE ON tenure.endpoints
  TO tenure_operator;
GRANT INSERT (tenant, kind, body) ON tenure.webhooks TO tenure_operator;  -- try_endpoint
GRANT DELETE ON tenure.webhooks, tenure.deliveries TO tenure_operator;  -- erase
GRANT EXECUTE ON FUNCTION tenure.rotate_secret, tenure.deliver_to TO tenure_operator;
GRANT EXECUTE ON FUNCTION tenure.endpoint_states TO tenure_readonly, tenure_operator;

-- Read: every row, whoever works, what was set, what happened.
GRANT SELECT ON tenure.inbox, tenure.live, tenure.archive, tenure.dead, tenure.attempts, tenure.idempotency, tenure.effects,
  tenure.fences, tenure.heads, tenure.arrivals, tenure.key_lanes, tenure.lane_arrivals, tenure.limits_begun, tenure.lane_priorities, tenure.permit_eras, tenure.permits, tenure.claims, tenure.workers, tenure.queues, tenure.schedules, tenure.chores,
  tenure.incarnation, tenure.audit, tenure.tally, tenure.refusals, tenure.membership, tenure.kinds, tenure.groups, tenure.group_slots, tenure.results, tenure.progress, tenure.watched TO tenure_readonly, tenure_operator;
GRANT SELECT ON tenure.archive_rest TO tenure_readonly, tenure_operator;  -- what stands in no day of its own, for doctor
GRANT SELECT ON SEQUENCE tenure.arrivals_id_seq TO tenure_readonly, tenure_operator, tenure_worker;
GRANT EXECUTE ON FUNCTION tenure.lanes, tenure.since, tenure.next_transaction, tenure.held, tenure.channel, tenure.presences, tenure.presence_key,
  tenure.ordered_queues, tenure.refilled, tenure.priorities, tenure.sum_each, tenure.fingerprint
  TO tenure_readonly, tenure_operator, tenure_worker;
GRANT EXECUTE ON FUNCTION tenure.declared TO tenure_readonly;
GRANT EXECUTE ON FUNCTION tenure.id_at, tenure.near, tenure.search, tenure.state_counts, tenure.all_counts,
  tenure.seen_held, tenure.read_through, tenure.free_heads TO tenure_readonly, tenure_operator;

-- Work: rows are taken and ended, never made otherwise than by enqueue; what ended is only added to.
-- Of a row it may change what a claim and the end of an attempt change: never what somebody sent. By hand it can end any row, also
-- without a trace, and lock the table: docs/guides/roles.md says so, decision 0009 says why.
GRANT SELECT, DELETE, UPDATE (available_at, lease_generation, fence_token, attempts, cancel_asked, limited, status, claimed_at,
  lease_expires_at, claim_id, claimed_by, last_error) ON tenure.live TO tenure_worker;
GRANT SELECT ON tenure.inbox TO tenure_worker;
GRANT INSERT ON tenure.archive, tenure.dead TO tenure_worker;
GRANT SELECT ON tenure.dead TO tenure_worker;  -- whether one of them keeps its key waiting
GRANT SELECT, INSERT ON tenure.attempts, tenure.effects TO tenure_worker;
GRANT SELECT, INSERT, UPDATE ON tenure.fences, tenure.progress TO tenure_worker;
GRANT SELECT, INSERT, UPDATE (era), DELETE ON tenure.permits TO tenure_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON tenure.heads, tenure.arrivals, tenure.claims, tenure.key_lanes, tenure.lane_arrivals,
  tenure.limits_begun, tenure.lane_priorities, tenure.permit_eras TO tenure_worker;
GRANT SELECT, INSERT, DELETE, UPDATE (status, last_seen_at, started_at, metadata, waiting, presence, gone_at) ON tenure.workers
  TO tenure_worker;
GRANT SELECT, UPDATE ON tenure.chores, tenure.incarnation TO tenure_worker;
GRANT INSERT (name, every_seconds) ON tenure.chores TO tenure_worker;
GRANT USAGE ON SEQUENCE tenure.fence_seq TO tenure_worker;
-- It counts what the rate of a queue allows, and cannot set it, nor resume what is paused.
GRANT SELECT, UPDATE (tokens, refilled_at) ON tenure.queues TO tenure_worker;
-- It plans what the code says and fires it; whether a schedule is paused, and that it is gone, is the operator's.
GRANT SELECT, INSERT (name, cron, zone, next_at, misfire, kind, payload, tick_as, queue, partition_key, priority, max_attempts, ordered),
  UPDATE (cron, zone, next_at, last_at, misfire, kind, payload, tick_as, queue, partition_key, priority, max_attempts, ordered, updated_at)
  ON tenure.schedules TO tenure_worker;
GRANT EXECUTE ON FUNCTION tenure.timeline, tenure.next_fence, tenure.backoff, tenure.end_attempts, tenure.count_ends, tenure.keep_values, tenure.keep_results, tenure.keep_archive,
  tenure.wake, tenure.free_heads, tenure.admitted, tenure.give_permits, tenure.open_transactions, tenure.begin_limits, tenure.adopt_running, tenure.fill_lanes,
  tenure.refresh_lanes, tenure.look_at_lanes, tenure.begin_lanes, tenure.due_from, tenure.due_lanes, tenure.lock_lane_rows, tenure.lock_due_rows, tenure.begin_era,
  tenure.must_read_committed, tenure.join_crowd, tenure.wait_for_place, tenure.claim_in_crowd, tenure.claim_limited, tenure.claim_ordered, tenure.due_heads, tenure.refresh_heads, tenure.hear_arrivals, tenure.look_at TO tenure_worker;

-- It says how its handlers send their kinds, for producers that cannot import them.
GRANT SELECT, INSERT, UPDATE, DELETE ON tenure.kinds TO tenure_worker;

-- It writes the history, and lets keep_history forget what is past retention.
GRANT SELECT, INSERT, UPDATE ON tenure.tally TO tenure_worker;
GRANT SELECT, INSERT ON tenure.refusals, tenure.membership TO tenure_worker;
GRANT EXECUTE ON FUNCTION tenure.reclaimed, tenure.add_tally, tenure.add_backlog, tenure.count_due, tenure.count_due_keys, tenure.note_refusals, tenure.keep_history TO tenure_worker;

-- Operate: neither a row's tokens nor its status, holder or lease are among the columns it may change, and what it brings back comes
-- back pending: nothing it does amounts to a claim. With rows it is trusted otherwise: by hand it may remove any, a held one too.
GRANT UPDATE (available_at, cancel_asked, last_error), DELETE ON tenure.live TO tenure_operator;
GRANT INSERT (id, seq, created_at, lease_generation, fence_token, max_attempts, priority, ordered, hold, kind, queue, partition_key,
  idempotency_key, payload, last_error, headers, counted) ON tenure.live TO tenure_operator;  -- redrive: a row comes back as it was, and free
GRANT INSERT, DELETE ON tenure.dead TO tenure_operator;
GRANT DELETE ON tenure.archive, tenure.attempts, tenure.effects, tenure.refusals, tenure.idempotency, tenure.results, tenure.progress
  TO tenure_operator;
GRANT INSERT (queue, partition_key, seq) ON tenure.arrivals TO tenure_operator;  -- a key to be looked at again
GRANT UPDATE (blocks) ON tenure.dead TO tenure_operator;
GRANT UPDATE (priority) ON tenure.dead, tenure.archive TO tenure_operator;  -- to lock a row takes the right to change some column of it
GRANT INSERT (queue, paused, max_running, max_per_key, rate_per_second, burst, retention_seconds),
  UPDATE (paused, max_running, max_per_key, rate_per_second, burst, tokens, refilled_at, updated_at, retention_seconds) ON tenure.queues TO tenure_operator;
GRANT UPDATE (paused, updated_at), DELETE ON tenure.schedules TO tenure_operator;
GRANT UPDATE (status) ON tenure.workers TO tenure_operator;
GRANT INSERT (worker, what, queues) ON tenure.membership TO tenure_operator;  -- a worker it drains has left the ring
-- A line of the audit is begun and carried on; who the database knows the operator by is not the operator's to write.
GRANT INSERT (actor, via, verb, target, reason), UPDATE (rows, done_at) ON tenure.audit TO tenure_operator;
GRANT EXECUTE ON FUNCTION tenure.rouse TO tenure_worker;
GRANT EXECUTE ON FUNCTION tenure.take_back, tenure.wake, tenure.rouse, tenure.forget_keys, tenure.count_ends, tenure.count_again, tenure.reopen TO tenure_operator;

-- Whoever reads rows may wait for their ends.
GRANT SELECT, INSERT, UPDATE ON tenure.watched TO tenure_readonly, tenure_operator;

-- Witness: the chain, what was read, and tokens without their hashes. To make or revoke a token, or to forget, is the owner's.
GRANT SELECT ON tenure.audit_links, tenure.audit_chain TO tenure_readonly, tenure_operator;
GRANT SELECT (id, name, role, queues, reveal, created_at, created_by, expires_at, revoked_at, last_used_at) ON tenure.tokens
  TO tenure_readonly, tenure_operator;
GRANT EXECUTE ON FUNCTION tenure.note_reading, tenure.end_reading, tenure.seal_audit, tenure.use_token TO tenure_readonly, tenure_operator;

-- Journal: producers append and read nothing; workers read it and keep it, operators erase streams and say how long events are kept.
GRANT EXECUTE ON FUNCTION tenure.append, tenure.append_events TO tenure_producer, tenure_worker, tenure_operator;
GRANT SELECT ON tenure.journal, tenure.streams, tenure.journal_kept, tenure.tails, tenure.projections, tenure.checkpoints, tenure.skipped
  TO tenure_worker, tenure_operator, tenure_readonly;
GRANT SELECT ON tenure.journal_rest TO tenure_operator, tenure_readonly;  -- what stands in no partition of its own, for doctor
GRANT SELECT ON SEQUENCE tenure.journal_position TO tenure_worker, tenure_operator, tenure_readonly;
GRANT EXECUTE ON FUNCTION tenure.horizon, tenure.marks, tenure.mark_tag, tenure.last_position, tenure.must_see_commits, tenure.read_between,
  tenure.read_after TO tenure_worker, tenure_operator, tenure_readonly;
GRANT INSERT, UPDATE, DELETE ON tenure.tails TO tenure_worker;
GRANT EXECUTE ON FUNCTION tenure.keep_journal TO tenure_worker;
GRANT EXECUTE ON FUNCTION tenure.erase_stream TO tenure_operator;
GRANT UPDATE (retention_seconds) ON tenure.journal_kept TO tenure_operator;
GRANT EXECUTE ON FUNCTION tenure.plan_projection TO tenure_worker;
GRANT INSERT, UPDATE, DELETE ON tenure.checkpoints TO tenure_worker;
GRANT UPDATE (shards, rebuild_id, rebuilt_at) ON tenure.projections TO tenure_worker;
GRANT EXECUTE ON FUNCTION tenure.open_shadow, tenure.stands_alone, tenure.raise_sequences, tenure.swap_shadow TO tenure_worker;
GRANT INSERT, UPDATE, DELETE ON tenure.skipped TO tenure_worker;
GRANT UPDATE (again) ON tenure.skipped TO tenure_operator;
GRANT UPDATE (paused) ON tenure.projections TO tenure_operator;
GRANT EXECUTE ON FUNCTION tenure.skip_stopped, tenure.forget_projection, tenure.resume_projection, tenure.ask_rebuild TO tenure_operator;

-- PostgreSQL 17 lets others than the owner vacuum. Below it autovacuum has the hot table to itself.
DO $vacuum$
BEGIN
  IF current_setting('server_version_num')::int >= 170000 THEN
    EXECUTE 'GRANT MAINTAIN ON tenure.live TO tenure_worker';
  END IF;
END
$vacuum$;
