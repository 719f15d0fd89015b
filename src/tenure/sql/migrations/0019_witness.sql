-- Witness: web tokens, and an audit whose lines are chained by hashes.
-- kind: expand

-- Whether it is in the chain as it ended. A line that is open is in it as begun if it has a link, and is not changed by that: whoever
-- seals holds no lock that the action waits for.
ALTER TABLE tenure.audit ADD COLUMN sealed boolean NOT NULL DEFAULT false;
CREATE INDEX audit_unsealed ON tenure.audit (id) WHERE NOT sealed;

-- A link covers a line as it was begun (without rows and done_at), or as it ended, and the hash of the link before.
CREATE TABLE tenure.audit_links (
  seq    bigint  NOT NULL PRIMARY KEY,
  line   bigint  NOT NULL,
  ended  boolean NOT NULL,
  before text    NOT NULL,
  hash   text    NOT NULL
);
CREATE INDEX audit_links_line ON tenure.audit_links (line);

-- The two ends of the chain. The anchor is the last link that was forgotten: the first that is kept names its hash.
CREATE TABLE tenure.audit_chain (
  one         boolean NOT NULL DEFAULT true PRIMARY KEY CHECK (one),
  anchor_seq  bigint  NOT NULL DEFAULT 0,
  anchor_hash text    NOT NULL DEFAULT repeat('0', 64),
  tip_seq     bigint  NOT NULL DEFAULT 0,
  tip_hash    text    NOT NULL DEFAULT repeat('0', 64)
);
INSERT INTO tenure.audit_chain DEFAULT VALUES;

-- What a link's hash is made of, after the hash of the link before and a line feed: a JSON array of texts, to be made anywhere.
CREATE FUNCTION tenure.audit_words(line tenure.audit, seq bigint, ended boolean) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_array(
    seq::text, line.id::text, CASE WHEN ended THEN 'ended' ELSE 'begun' END,
    to_char(line.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    line.actor, line.via, line.verb, line.target, line.reason, line.database_user,
    CASE WHEN ended THEN line.rows::text ELSE '' END,
    CASE WHEN ended THEN to_char(line.done_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') ELSE '' END
  )::text
$$;

-- Link what is not in the chain yet. Writers never wait for each other: they only insert, and whoever seals first links the lines
-- of all. A second one finds the chain's row locked, and leaves it to the first (NULL). Lines are linked in the order in which
-- they are seen here, which is the order of the chain from then on; an ended line that somebody has locked is linked next time.
CREATE FUNCTION tenure.seal_audit(most int) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  tip   tenure.audit_chain;
  line  tenure.audit;
  next  text;
  n     bigint := 0;
BEGIN
  SELECT c.* INTO tip FROM tenure.audit_chain AS c FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  FOR line IN
    SELECT a.* FROM tenure.audit AS a
    WHERE NOT a.sealed
      AND (a.done_at IS NOT NULL OR NOT EXISTS (SELECT FROM tenure.audit_links AS l WHERE l.line = a.id))
    ORDER BY a.id
    LIMIT most
  LOOP
    IF line.done_at IS NOT NULL THEN
      UPDATE tenure.audit AS a SET sealed = true
      WHERE a.id = (SELECT b.id FROM tenure.audit AS b WHERE b.id = line.id FOR UPDATE SKIP LOCKED);
      CONTINUE WHEN NOT FOUND;
    END IF;
    n := n + 1;
    next := encode(sha256(convert_to(
      tip.tip_hash || E'\n' || tenure.audit_words(line, tip.tip_seq + 1, line.done_at IS NOT NULL), 'UTF8')), 'hex');
    INSERT INTO tenure.audit_links (seq, line, ended, before, hash)
    VALUES (tip.tip_seq + 1, line.id, line.done_at IS NOT NULL, tip.tip_hash, next);
    tip.tip_seq := tip.tip_seq + 1;
    tip.tip_hash := next;
  END LOOP;
  UPDATE tenure.audit_chain AS c SET tip_seq = tip.tip_seq, tip_hash = tip.tip_hash WHERE n > 0;  -- implied: saves a write
  RETURN n;
END
$$;

-- Forget the oldest links whose lines ended long ago (or were begun then, and broken off), with the lines; the anchor keeps the last
-- of their hashes. A line that is gone without this stops it: what shows that stays.
CREATE FUNCTION tenure.forget_audit(older interval) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  tip  tenure.audit_chain;
  upto bigint;
  cut  bigint;
  n    bigint;
BEGIN
  SELECT c.* INTO tip FROM tenure.audit_chain AS c FOR UPDATE;  -- implied: two that forget wait here, not at the first line both delete
  SELECT coalesce(min(l.seq) - 1, tip.tip_seq) INTO upto
  FROM tenure.audit_links AS l LEFT JOIN tenure.audit AS a ON a.id = l.line
  WHERE a.id IS NULL OR (NOT a.sealed AND a.done_at IS NOT NULL) OR coalesce(a.done_at, a.at) >= clock_timestamp() - older;
  LOOP  -- a line has one or two links, and goes only with the last of them
    SELECT min(l.seq) - 1 INTO cut FROM tenure.audit_links AS l JOIN tenure.audit_links AS m ON m.line = l.line
    WHERE l.seq <= upto AND m.seq > upto;
    EXIT WHEN cut IS NULL;
    upto := cut;
  END LOOP;
  PERFORM set_config('audit.forgetting', 'on', true);
  DELETE FROM tenure.audit AS a USING tenure.audit_links AS l WHERE l.seq <= upto AND a.id = l.line;
  GET DIAGNOSTICS n = ROW_COUNT;
  PERFORM set_config('audit.forgetting', '', true);
  UPDATE tenure.audit_chain AS c SET anchor_seq = upto, anchor_hash = l.hash FROM tenure.audit_links AS l WHERE l.seq = upto;
  DELETE FROM tenure.audit_links AS l WHERE l.seq <= upto;
  RETURN n;
END
$$;

-- As before; also a line is sealed, and the oldest lines are forgotten by forget_audit.
CREATE OR REPLACE FUNCTION tenure.keep_audit() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.sealed > OLD.sealed AND (to_jsonb(NEW) - 'sealed') = (to_jsonb(OLD) - 'sealed') THEN
      RETURN NEW;
    END IF;
    IF OLD.done_at IS NULL
       AND NEW.rows >= OLD.rows
       AND (NEW.done_at IS NULL OR NEW.done_at BETWEEN OLD.at - interval '1 day' AND clock_timestamp() + interval '1 day')
       AND (to_jsonb(NEW) - 'rows' - 'done_at') = (to_jsonb(OLD) - 'rows' - 'done_at') THEN
      RETURN NEW;
    END IF;
  ELSIF TG_OP = 'DELETE' THEN
    IF current_setting('audit.forgetting', true) = 'on' THEN
      RETURN OLD;
    END IF;
  END IF;
  RAISE EXCEPTION 'the audit is only ever added to: % of tenure.audit is refused', lower(TG_OP)
    USING ERRCODE = 'insufficient_privilege';
END
$$;

-- Whoever seals first links the lines of all, so this is not to carry a line on.
DROP TRIGGER audit_own ON tenure.audit;
CREATE TRIGGER audit_own BEFORE UPDATE ON tenure.audit FOR EACH ROW
  WHEN (OLD.database_user <> session_user AND NEW.sealed = OLD.sealed) EXECUTE FUNCTION tenure.refuse_line();

-- What was read, or tried in vain: the lines that somebody may cause who may otherwise only read.
CREATE FUNCTION tenure.note_reading(who text, how text, what text, which text, why text) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  INSERT INTO tenure.audit AS a (actor, via, verb, target, reason)
  SELECT who, how, what, which, why
  WHERE what IN ('export', 'reveal', 'login_failed')
  RETURNING a.id
$$;
CREATE FUNCTION tenure.end_reading(action bigint, n bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  UPDATE tenure.audit AS a SET rows = n, done_at = clock_timestamp()  -- implied: called in a transaction of its own
  WHERE a.id = action
    AND a.done_at IS NULL
    AND a.verb IN ('export', 'reveal', 'login_failed')
    AND a.database_user = session_user
  RETURNING a.id
$$;

-- Tokens for the web. The secret has 256 random bits, so one round of SHA-256 hides it: there is nothing to guess.
CREATE TABLE tenure.tokens (
  id           text        NOT NULL PRIMARY KEY,  -- the part of the token that may be shown
  name         text        NOT NULL UNIQUE,       -- never given again: the audit knows it
  hash         bytea       NOT NULL,
  role         text        NOT NULL CHECK (role IN ('read', 'operate', 'admin')),
  queues       text[],                            -- NULL: all
  reveal       boolean     NOT NULL DEFAULT false,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  created_by   text        NOT NULL,
  expires_at   timestamptz NOT NULL,
  revoked_at   timestamptz,
  last_used_at timestamptz
);

-- Whose token this is. Its last use is written down once a minute; nobody waits for that.
CREATE FUNCTION tenure.use_token(shown text, digest bytea)
RETURNS TABLE (name text, role text, queues text[], reveal boolean, expired boolean, revoked boolean) LANGUAGE sql VOLATILE AS $$
  WITH found AS MATERIALIZED (
    SELECT t.* FROM tenure.tokens AS t WHERE t.id = shown AND t.hash = digest
  ), stale AS MATERIALIZED (
    SELECT t.id FROM tenure.tokens AS t JOIN found AS f ON f.id = t.id
    WHERE f.revoked_at IS NULL
      AND f.expires_at > clock_timestamp()  -- implied: called in a transaction of its own
      AND (f.last_used_at IS NULL OR f.last_used_at < clock_timestamp() - interval '1 minute')  -- implied: right to the minute
    FOR UPDATE OF t SKIP LOCKED
  ), used AS (
    UPDATE tenure.tokens AS t SET last_used_at = clock_timestamp() FROM stale AS s WHERE t.id = s.id
  )
  SELECT f.name, f.role, f.queues, f.reveal, f.expires_at <= clock_timestamp(), f.revoked_at IS NOT NULL FROM found AS f
$$;
