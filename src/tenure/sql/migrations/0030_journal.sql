-- The journal: what happened, in streams, read in one order without gaps.
-- kind: expand
--
--   streams        one row a stream: its version is its last event, without gaps
--   journal        the events, by position; one partition for each ten million
--   journal_kept   how long events are kept, and up to where they were forgotten
--   tails          who waits for the next event and wants a note
--
-- A position is taken at the insert and seen at the commit: a reader that remembers the last one it saw would miss those that are
-- committed later. So each transaction that appends leaves a mark before its first number: a shared advisory lock that says which
-- number was given out last. Whoever reads, reads up to the lowest mark.

CREATE SEQUENCE tenure.journal_position CACHE 1;

CREATE TABLE tenure.streams (
  stream  text   NOT NULL PRIMARY KEY CHECK (octet_length(stream) BETWEEN 1 AND 512),
  version bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE tenure.journal (
  position bigint      NOT NULL DEFAULT nextval('tenure.journal_position') PRIMARY KEY,
  at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  version  bigint      NOT NULL,
  id       uuid        NOT NULL DEFAULT tenure.new_id(),
  stream   text        NOT NULL,
  type     text        NOT NULL,
  data     jsonb       NOT NULL,
  headers  jsonb
) PARTITION BY RANGE (position);
-- No unique index: who appends has the stream's row locked, and that row gives out the versions.
CREATE INDEX journal_stream ON tenure.journal (stream, version);

CREATE TABLE tenure.journal_kept (
  only_row          boolean NOT NULL DEFAULT true PRIMARY KEY CHECK (only_row),
  retention_seconds float8  CONSTRAINT journal_retention CHECK (retention_seconds BETWEEN 3600 AND 315576000),  -- NULL: for ever
  forgotten_to      bigint  NOT NULL DEFAULT 0
);
INSERT INTO tenure.journal_kept DEFAULT VALUES;

CREATE TABLE tenure.tails (
  name  text        NOT NULL PRIMARY KEY,
  until timestamptz NOT NULL
);

-- The high part of every mark: it tells the marks of this journal from other advisory locks. Never 0, where plain numbers are.
CREATE FUNCTION tenure.mark_tag() RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT 1 + (hashtextextended('tenure journal', 'tenure.journal'::regclass::oid::bigint) & 16383)
$$;

-- The last position that was given out.
CREATE FUNCTION tenure.last_position() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END FROM tenure.journal_position AS s
$$;

-- Leave the mark of this transaction, before any of its numbers is given out. The setting only says which lock it was, so that further
-- statements take the same one: to take it again costs nothing. Whoever sets it by hand gains nothing: the lock is taken either
-- way, and one that is older than it need be only makes readers wait longer. A savepoint that is rolled back undoes both.
CREATE FUNCTION tenure.leave_mark() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  said text := current_setting('tenure_inbox.mark', true);
  last bigint := tenure.last_position();
  mark bigint := CASE WHEN said ~ '^[0-9]{1,15}$' AND said::bigint < last THEN said::bigint ELSE last END;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(tenure.mark_tag() << 48 | mark);
  IF said IS DISTINCT FROM mark::text THEN  -- implied: only spares the setting what it says already
    PERFORM set_config('tenure_inbox.mark', mark::text, true);
  END IF;
  IF current_setting('max_prepared_transactions') = '0' AND EXISTS (SELECT FROM tenure.tails AS t WHERE t.until > clock_timestamp()) THEN
    PERFORM pg_notify(tenure.channel() || '_journal', '');  -- of latency only; what has notified cannot be prepared
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER journal_mark BEFORE INSERT ON tenure.journal FOR EACH STATEMENT EXECUTE FUNCTION tenure.leave_mark();

-- An older snapshot would miss what was committed since, and the reader would never come back for it; so would a standby, which does
-- not see the marks of the primary.
CREATE FUNCTION tenure.must_see_commits() RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF pg_is_in_recovery() THEN
    RAISE EXCEPTION 'the journal is read on the primary: a standby does not see who is still writing, and events would be missed'
      USING ERRCODE = 'feature_not_supported', HINT = 'Add target_session_attrs=read-write to the address.';
  END IF;
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'the journal is read in READ COMMITTED, not %: an older snapshot would miss events', upper(current_setting('transaction_isolation'))
      USING ERRCODE = 'feature_not_supported', HINT = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED.';
  END IF;
END
$$;

-- The marks that stand now, with the session of each; NULL: a prepared transaction.
CREATE FUNCTION tenure.marks() RETURNS TABLE (mark bigint, pid int) LANGUAGE sql VOLATILE AS $$
  SELECT (l.classid::bigint << 32 | l.objid::bigint) & 281474976710655, l.pid
  FROM pg_locks AS l
  WHERE l.locktype = 'advisory'  -- implied: no other kind has this objsubid and this tag
    AND l.objsubid = 1
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    AND l.classid::bigint >> 16 = tenure.mark_tag()
$$;

-- Up to where the journal can be read: every event up to here is committed and seen by the next statement, or will never be. The last
-- number is read first, then the marks: who is not among them has ended, or will get a higher number than that.
CREATE FUNCTION tenure.horizon() RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  last bigint;
  lowest bigint;
BEGIN
  PERFORM tenure.must_see_commits();
  last := tenure.last_position();
  lowest := (SELECT min(m.mark) FROM tenure.marks() AS m);
  RETURN LEAST(last, lowest);
END
$$;

-- Events after a position, in order, up to a horizon that was asked for before. A statement of its own: its snapshot must be the later one.
CREATE FUNCTION tenure.read_between(after bigint, upto bigint, like_types text[], of_shard int, shards int, most int)
  RETURNS TABLE ("position" bigint, stream text, version bigint, type text, id uuid, at timestamptz, data text, headers text)
  LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
  PERFORM tenure.must_see_commits();
  RETURN QUERY
    SELECT j.position, j.stream, j.version, j.type, j.id, j.at, j.data::text, j.headers::text FROM tenure.journal AS j
    WHERE j.position > after
      AND j.position <= upto
      AND (like_types IS NULL OR j.type LIKE ANY (like_types))
      AND (shards = 1 OR tenure.bucket(j.stream) % shards = of_shard)
    ORDER BY j.position LIMIT most;
END
$$;

-- The same up to the horizon of now.
CREATE FUNCTION tenure.read_after(after bigint, like_types text[] DEFAULT NULL, most int DEFAULT 500)
  RETURNS TABLE ("position" bigint, stream text, version bigint, type text, id uuid, at timestamptz, data text, headers text)
  LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  upto bigint := tenure.horizon();
BEGIN
  RETURN QUERY SELECT * FROM tenure.read_between(after, upto, like_types, 0, 1, most);
END
$$;

-- Append events to a stream in the caller's transaction: the version and the position of the last of them. If `expect` is not the last
-- version, nothing is appended, and the answer is the version there is, without a position.
CREATE FUNCTION tenure.append_events(of_stream text, types text[], datas jsonb[], all_headers jsonb[], ids uuid[], expect bigint,
                                     OUT last_version bigint, OUT last_position bigint)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n int := cardinality(types);
BEGIN
  IF COALESCE(expect, 0) = 0 THEN
    INSERT INTO tenure.streams AS s (stream, version) VALUES (of_stream, n)
    ON CONFLICT (stream) DO UPDATE SET version = s.version + n WHERE expect IS NULL OR s.version = 0
    RETURNING s.version INTO last_version;
  ELSE
    UPDATE tenure.streams AS s SET version = s.version + n WHERE s.stream = of_stream AND s.version = expect
    RETURNING s.version INTO last_version;
  END IF;
  IF last_version IS NULL THEN
    last_version := COALESCE((SELECT s.version FROM tenure.streams AS s WHERE s.stream = of_stream), 0);
    RETURN;
  END IF;
  WITH added AS (
    INSERT INTO tenure.journal AS j (stream, version, type, data, headers, id)
    SELECT of_stream, last_version - n + e.number, e.type, e.data, e.headers, COALESCE(e.id, tenure.new_id())
    FROM unnest(types, datas, all_headers, ids) WITH ORDINALITY AS e (type, data, headers, id, number)
    ORDER BY e.number
    RETURNING j.position
  )
  SELECT max(a.position) INTO last_position FROM added AS a;
END
$$;

-- For psql and other languages: one event, and an error if `expect` is not the last version.
CREATE FUNCTION tenure.append(stream text, type text, data jsonb, expect bigint DEFAULT NULL, headers jsonb DEFAULT NULL, id uuid DEFAULT NULL,
                              OUT version bigint, OUT "position" bigint)
  LANGUAGE plpgsql AS $$
DECLARE
  fault text := CASE
    WHEN stream IS NULL OR octet_length(stream) NOT BETWEEN 1 AND 512 THEN tenure.bytes_of('stream', stream, 512)
    WHEN type IS NULL OR octet_length(type) NOT BETWEEN 1 AND 128 THEN tenure.bytes_of('type', type, 128)
    WHEN expect < 0 THEN format('expect=%s must be the last version of the stream: 0 for a new one', expect)
    ELSE tenure.fault_of('event', 'journal', NULL, NULL, data, headers, 0, 1, statement_timestamp(), false, false)  -- implied: any time within ten years
  END;
BEGIN
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION '%', fault USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT a.last_version, a.last_position INTO version, position
  FROM tenure.append_events(stream, ARRAY[type], ARRAY[data], ARRAY[headers], ARRAY[id], expect) AS a;
  IF position IS NULL THEN
    RAISE EXCEPTION 'stream % is at version %, not %: read it again and decide anew', to_json(left(stream, 40)), version, expect
      USING ERRCODE = 'serialization_failure';
  END IF;
END
$$;

-- What comes into the journal by whatever door: names as short and data as small as everywhere.
CREATE FUNCTION tenure.refuse_event() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  fault text := CASE
    WHEN octet_length(NEW.type) NOT BETWEEN 1 AND 128 THEN tenure.bytes_of('type', NEW.type, 128)
    WHEN octet_length(NEW.stream) NOT BETWEEN 1 AND 512 THEN tenure.bytes_of('stream', NEW.stream, 512)
    ELSE tenure.fault_of('event', 'journal', NULL, NULL, NEW.data, NEW.headers, 0, 1, statement_timestamp(), false, false)  -- implied: any time within ten years
  END;
BEGIN
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION '%', fault USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER journal_sane AFTER INSERT ON tenure.journal FOR EACH ROW EXECUTE FUNCTION tenure.refuse_event();

-- Holds an event even where nobody made a partition. Whoever inserts into a partition by hand leaves a mark, too.
CREATE TABLE tenure.journal_rest PARTITION OF tenure.journal DEFAULT;
CREATE TRIGGER journal_mark_rest BEFORE INSERT ON tenure.journal_rest FOR EACH STATEMENT EXECUTE FUNCTION tenure.leave_mark();
