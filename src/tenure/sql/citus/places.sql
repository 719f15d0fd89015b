-- Where keys and inboxes are: what the functions of the door ask.
--
--   home, check_home      which node a key belongs to; TN002 where that is not this one
--   check_inbox           TN002 where this node has no inbox that workers know
--   here, ranges_here     the number of this node; the ranges of keys that it has
--   range_of, place       which range a key is in, where that is, and by which move
--   hold_range, stay      a range does not move before this transaction has ended; and it must be here still
--   check_settled         no committed row of a key may be hidden here, in a transaction that is prepared and cut off
--   commit_together       what this transaction writes here and elsewhere is committed together
--   alone                 this statement is a transaction of its own, and writes nothing but what it sends
--   nodes, members        where the inboxes are; all there ever were

CREATE OR REPLACE FUNCTION tenure_door.home(routing_key text) RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT min(p.groupid) FROM pg_catalog.pg_dist_placement AS p
          WHERE p.shardid = pg_catalog.get_shard_id_for_distribution_column('tenure_door.keys', routing_key));
END
$$;

-- In a join, a subquery or a CTE Citus runs a function where the caller is, whatever its key: that row would be on the wrong node.
-- If Citus has led here from another node, the range was here a moment ago.
CREATE OR REPLACE FUNCTION tenure_door.check_home(routing_key text) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
  at int := tenure_door.home(routing_key);
BEGIN
  IF at IS DISTINCT FROM (SELECT g.groupid FROM pg_catalog.pg_dist_local_group AS g) THEN
    IF current_setting('application_name') LIKE 'citus\_internal%' THEN
      RAISE EXCEPTION 'the range of key % has moved while its row was sent: send it again', routing_key USING ERRCODE = 'serialization_failure';
    END IF;
    RAISE EXCEPTION 'this row belongs to inbox %, and Citus did not run put there: call enqueue of the door instead', at
      USING ERRCODE = 'TN002';
  END IF;
END
$$;

-- A node that has just joined, or has come back after it was drained: nobody would run a row there. The lock is kept until the transaction has
-- ended, also while it is prepared: a drain forgets no inbox that somebody sends to. Volatile: what is asked after the lock sees what came before it.
CREATE OR REPLACE FUNCTION tenure_door.check_inbox() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_catalog.pg_advisory_xact_lock_shared(hashtextextended('tenure_door', 'tenure_door.inboxes'::regclass::oid::bigint));
  IF NOT EXISTS (SELECT FROM tenure_door.inboxes AS i WHERE i.group_id = tenure_door.here()) THEN
    RAISE EXCEPTION 'node group % has no inbox that workers know: run `tenure migrate --citus` on the coordinator', tenure_door.here()
      USING ERRCODE = 'TN002';
  END IF;
END
$$;

CREATE OR REPLACE FUNCTION tenure_door.here() RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT g.groupid FROM pg_catalog.pg_dist_local_group AS g);
END
$$;

CREATE OR REPLACE FUNCTION tenure_door.range_of(routing_key text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN pg_catalog.get_shard_id_for_distribution_column('tenure_door.keys', routing_key);
END
$$;

-- Citus writes the line of a range anew when the range moves: which transaction did so tells one stay on a node from the next.
CREATE OR REPLACE FUNCTION tenure_door.place(routing_key text, OUT range bigint, OUT inbox int, OUT placed bigint) LANGUAGE plpgsql STABLE AS $$
BEGIN
  range := tenure_door.range_of(routing_key);
  SELECT p.groupid, p.xmin::text::bigint INTO inbox, placed FROM pg_catalog.pg_dist_placement AS p
  WHERE p.shardid = place.range ORDER BY p.groupid LIMIT 1;
END
$$;

CREATE OR REPLACE FUNCTION tenure_door.ranges_here() RETURNS TABLE (range bigint, placed bigint) LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY SELECT s.shardid, p.xmin::text::bigint FROM pg_catalog.pg_dist_shard AS s
  JOIN pg_catalog.pg_dist_placement AS p ON p.shardid = s.shardid
  WHERE s.logicalrelid = 'tenure_door.keys'::regclass AND p.groupid = tenure_door.here();
END
$$;

-- The lock that Citus takes for a write to the range: a move waits for us, and we wait for a move. Citus lends it to the owner alone.
CREATE OR REPLACE FUNCTION tenure_door.hold_range(routing_key text) RETURNS void LANGUAGE plpgsql VOLATILE
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  share_lock CONSTANT int := 5;
BEGIN
  PERFORM pg_catalog.lock_shard_metadata(share_lock, ARRAY[tenure_door.range_of(routing_key)]);
END
$$;

-- The same where the row is to be written. A range that has moved while we waited for it took the row's place along.
CREATE OR REPLACE FUNCTION tenure_door.stay(routing_key text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  before int := tenure_door.home(routing_key);
BEGIN
  PERFORM tenure_door.hold_range(routing_key);
  IF tenure_door.home(routing_key) IS DISTINCT FROM before THEN
    RAISE EXCEPTION 'the range of key % has moved while its row was sent: send it again', routing_key USING ERRCODE = 'serialization_failure';
  END IF;
END
$$;

-- Whoever has sent a row is answered when its commit is decided. If this server crashed then, or was cut off, the row is here and hidden, until
-- Citus ends its prepared transaction: a later row of its key would be seen first. What is prepared and not cut off ends within a moment.
CREATE OR REPLACE FUNCTION tenure_door.check_settled() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF EXISTS (
    SELECT FROM pg_catalog.pg_prepared_xacts AS p
    WHERE p.database = current_database()
      AND p.gid LIKE 'citus\_%'
      AND p.prepared < GREATEST(pg_postmaster_start_time(), clock_timestamp() - interval '1 second')
  ) THEN
    RAISE EXCEPTION 'transactions of before this server''s restart, or of over a second ago, are not settled yet, and may have earlier rows: send it again'
      USING ERRCODE = 'serialization_failure';
  END IF;
END
$$;

-- A transaction with one other node is committed there first, then here, in one phase: a crash between the two would tear it. If Citus knows
-- of a write here, it takes two. But it sees writes to its own tables only, neither those to an inbox nor those to a plain table of yours:
-- so it is shown one, of no row.
CREATE OR REPLACE FUNCTION tenure_door.commit_together() RETURNS void LANGUAGE plpgsql VOLATILE
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
  here CONSTANT int := tenure_door.here();
  near text := current_setting('citus_door.key_here', true);
BEGIN
  IF current_setting('citus_door.together', true) = 'yes' THEN  -- implied: only quicker, one write is enough
    RETURN;
  END IF;
  IF EXISTS (SELECT FROM tenure_door.ranges_here()) THEN
    WHILE near IS NULL OR near = '' OR tenure_door.home(near) <> here LOOP
      near := gen_random_uuid()::text;
    END LOOP;
    PERFORM set_config('citus_door.key_here', near, false);
    DELETE FROM tenure_door.keys AS k WHERE k.partition_key = near;
  ELSIF here <> 0 AND EXISTS (SELECT FROM tenure_door.inboxes AS i WHERE i.group_id = 0) THEN
    UPDATE tenure_door.inboxes AS i SET group_id = i.group_id  -- on all nodes: senders wait for each other
    WHERE i.group_id = -1;  -- implied: else its rows are written, to what they are
  ELSE
    DELETE FROM tenure_door.together AS t  -- from another node, the coordinator is a second one: that takes two phases, too
    WHERE t.n = 0;  -- implied: it has no rows
  END IF;
  PERFORM set_config('citus_door.together', 'yes', true);
END
$$;

-- Only who sends a statement knows that it is no part of a transaction. Whoever does not say so pays for a second phase, no more.
CREATE OR REPLACE FUNCTION tenure_door.alone() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN current_query() ~ '^(--[^\n]*\n)*\s*SELECT /\* alone \*/';
END
$$;

-- Which inboxes there are, and where: failover tools rewrite the address, the number of the group stays.
CREATE OR REPLACE FUNCTION tenure_door.nodes() RETURNS TABLE (inbox int, host text, port int) LANGUAGE plpgsql AS $$
DECLARE
  groups int[] := ARRAY(SELECT i.group_id FROM tenure_door.inboxes AS i);
BEGIN
  RETURN QUERY SELECT d.groupid, d.nodename, d.nodeport FROM pg_catalog.pg_dist_node AS d
  WHERE d.groupid = ANY (groups) AND d.noderole = 'primary' AND d.isactive ORDER BY d.groupid;
END
$$;

-- All of them, also those that are disabled, or removed: what they had may still be there.
CREATE OR REPLACE FUNCTION tenure_door.members() RETURNS TABLE (inbox int, host text, port int) LANGUAGE plpgsql AS $$
DECLARE
  groups int[] := ARRAY(SELECT i.group_id FROM tenure_door.inboxes AS i);
BEGIN
  RETURN QUERY SELECT g.id, d.nodename, d.nodeport FROM unnest(groups) AS g (id)
  LEFT JOIN pg_catalog.pg_dist_node AS d ON d.groupid = g.id AND d.noderole = 'primary' ORDER BY 1;
END
$$;
