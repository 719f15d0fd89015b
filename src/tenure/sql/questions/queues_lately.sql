-- queues_lately: what each queue did in the last seconds: attempts that ended by outcome, how long rows waited and handlers ran
-- in: seconds int, n int
-- out: queue, completed, retried, released, failed, dead_lettered, cancelled, waits (by bound), runs (by bound)
-- why: as in series, a sum for each bound is quicker than an unnest.
SELECT t.queue, sum(t.completed), sum(t.retried), sum(t.released), sum(t.failed), sum(t.dead_lettered), sum(t.cancelled),
       ARRAY[sum(t.waits[1]), sum(t.waits[2]), sum(t.waits[3]), sum(t.waits[4]), sum(t.waits[5]), sum(t.waits[6]),
             sum(t.waits[7]), sum(t.waits[8]), sum(t.waits[9]), sum(t.waits[10]), sum(t.waits[11]), sum(t.waits[12]),
             sum(t.waits[13]), sum(t.waits[14]), sum(t.waits[15]), sum(t.waits[16]), sum(t.waits[17])],
       ARRAY[sum(t.runs[1]), sum(t.runs[2]), sum(t.runs[3]), sum(t.runs[4]), sum(t.runs[5]), sum(t.runs[6]), sum(t.runs[7]),
             sum(t.runs[8]), sum(t.runs[9]), sum(t.runs[10]), sum(t.runs[11]), sum(t.runs[12]), sum(t.runs[13]),
             sum(t.runs[14]), sum(t.runs[15]), sum(t.runs[16]), sum(t.runs[17])]
FROM tenure.tally AS t
WHERE t.at >= statement_timestamp() - :seconds * interval '1 second'
  AND t.queue <> ''
GROUP BY t.queue
ORDER BY sum(t.completed + t.retried + t.released + t.failed + t.dead_lettered + t.cancelled) DESC, t.queue
LIMIT :n
