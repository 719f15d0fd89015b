-- free_key: let an ordered key go on that waits for an operator; the row it waits for stays as it ended
-- in: queue text, partition_key text
-- out: queue, woken
-- why: the holder of a processing row keeps its key: only a key whose row has ended can be freed.
WITH freed AS (
  DELETE FROM tenure.keys AS k
  WHERE k.queue = :queue
    AND k.partition_key = :partition_key
    AND NOT EXISTS (SELECT FROM tenure.live AS i WHERE i.id = k.row_id)
  RETURNING k.queue, k.partition_key
)
SELECT freed.queue, tenure.rouse(ARRAY[freed.queue], ARRAY[tenure.bucket(freed.partition_key)]) FROM freed
