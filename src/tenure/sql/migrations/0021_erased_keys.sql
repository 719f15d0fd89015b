-- What claims remember of a key goes with its last row, when that is erased: a key may name a person.
-- kind: expand

-- Forget the keys of rows that were erased in this statement, if no row of theirs is left. Heads, key lanes and
-- arrivals are a memory of the rows that wait. The locks come first: then every row is seen that a claim has learned of before, and no
-- claim learns of another meanwhile. Nobody is waited for. What a claim has locked it looks at again: an arrival says so. In a
-- transaction that would not see those rows nothing is forgotten.
CREATE FUNCTION tenure.forget_keys(of_queues text[], keys text[], seqs bigint[]) RETURNS void LANGUAGE plpgsql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  erased record;
  locked bigint[];
  head boolean;
  lanes boolean;
  empty boolean;
  bare_queues text[];
  bare_keys text[];
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    INSERT INTO tenure.arrivals (queue, partition_key, seq)
    SELECT e.queue, e.partition_key, e.seq FROM unnest(of_queues, keys, seqs) AS e (queue, partition_key, seq) WHERE e.seq IS NOT NULL;
    RETURN;
  END IF;
  FOR erased IN
    SELECT e.queue, e.partition_key, min(e.seq) AS seq FROM unnest(of_queues, keys, seqs) AS e (queue, partition_key, seq)
    WHERE e.partition_key IS NOT NULL  -- implied: without a key there is nothing to forget
    GROUP BY e.queue, e.partition_key
    ORDER BY e.queue, e.partition_key
  LOOP
    lanes := NOT EXISTS (SELECT FROM tenure.queues AS q WHERE q.queue = erased.queue AND q.max_per_key IS NOT NULL);
    IF NOT lanes THEN
      PERFORM FROM tenure.queues AS q WHERE q.queue = erased.queue FOR UPDATE SKIP LOCKED;
      lanes := FOUND;
    END IF;
    locked := ARRAY(SELECT a.id FROM tenure.arrivals AS a
                    WHERE a.partition_key = erased.partition_key AND a.queue = erased.queue FOR UPDATE SKIP LOCKED);
    PERFORM FROM tenure.heads AS h WHERE h.queue = erased.queue AND h.partition_key = erased.partition_key FOR UPDATE SKIP LOCKED;
    head := FOUND;
    -- A statement of its own: it sees what was committed before the locks.
    empty := NOT EXISTS (SELECT FROM tenure.live AS i
                         WHERE NOT i.ordered  -- implied: the others are asked for below; lets live_keyed serve
                           AND i.queue = erased.queue AND i.partition_key = erased.partition_key)
      AND NOT EXISTS (SELECT FROM tenure.live AS i
                      WHERE i.ordered  -- implied: as above; lets live_heads serve
                        AND i.queue = erased.queue AND i.partition_key = erased.partition_key
                        AND tenure.bucket(i.partition_key) = tenure.bucket(erased.partition_key));  -- implied: a key has one; lets live_heads serve
    IF empty THEN
      DELETE FROM tenure.arrivals AS a
      WHERE a.queue = erased.queue  -- implied: a number is given once; lets the primary key serve
        AND a.id = ANY (locked);
      DELETE FROM tenure.heads AS h WHERE head AND h.queue = erased.queue AND h.partition_key = erased.partition_key;
    END IF;
    IF empty AND lanes THEN
      DELETE FROM tenure.key_lanes AS n WHERE n.partition_key = erased.partition_key AND n.queue = erased.queue;
      bare_queues := bare_queues || erased.queue;
      bare_keys := bare_keys || erased.partition_key;
    ELSIF empty THEN
      INSERT INTO tenure.lane_arrivals (queue, partition_key) VALUES (erased.queue, erased.partition_key);
    END IF;
    INSERT INTO tenure.arrivals (queue, partition_key, seq)
    SELECT erased.queue, erased.partition_key, erased.seq
    WHERE erased.seq IS NOT NULL
      AND (NOT empty
           OR EXISTS (SELECT FROM tenure.heads AS h WHERE h.queue = erased.queue AND h.partition_key = erased.partition_key)
           OR EXISTS (SELECT FROM tenure.arrivals AS a WHERE a.partition_key = erased.partition_key AND a.queue = erased.queue));
  END LOOP;
  DELETE FROM tenure.lane_arrivals AS n USING unnest(bare_queues, bare_keys) AS b (queue, partition_key)
  WHERE n.queue = b.queue AND n.partition_key = b.partition_key
    AND NOT EXISTS (SELECT FROM tenure.live AS i  -- a row that came since has brought its own arrival
                    WHERE NOT i.ordered  -- implied: ordered rows have other arrivals; lets live_keyed serve
                      AND i.queue = b.queue AND i.partition_key = b.partition_key);
END
$$;
