-- free_key: let an ordered key go on that waits for an operator; the row it waits for stays as it ended
-- in: queue text, partition_key text
-- out: queue, woken
-- why: the holder of a processing row keeps its key: only a key whose row has ended can be freed.
WITH freed AS (
  UPDATE tenure.dead AS d SET blocks = false
  WHERE d.queue = :queue
    AND d.partition_key = :partition_key
    AND d.blocks
  RETURNING d.queue, d.partition_key, d.seq
), told AS (
  INSERT INTO tenure.arrivals (queue, partition_key, seq)
  SELECT freed.queue, freed.partition_key, freed.seq FROM freed
)
SELECT freed.queue, tenure.rouse(ARRAY[freed.queue], ARRAY[tenure.bucket(freed.partition_key)]) FROM freed LIMIT 1
