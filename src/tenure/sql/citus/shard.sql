-- shard: one inbox of the cluster, for `tenure shards`
-- in: (none)
-- out: epoch (of its fences), home (ranges that are at home), waiting (ranges that are not yet, or that rows wait for), depth (live rows), dead, oldest_seconds (for how long a row has been due), workers, reason (what the first row waits for)
SELECT (SELECT i.epoch FROM tenure.incarnation AS i),
       (SELECT count(*)::int FROM tenure_door.ranges_here() AS h JOIN tenure.ranges AS r ON r.range = h.range AND r.placed = h.placed),
       (SELECT count(*)::int FROM (
          SELECT h.range FROM tenure_door.ranges_here() AS h
          WHERE NOT EXISTS (SELECT FROM tenure.ranges AS r WHERE r.range = h.range AND r.placed = h.placed)
          UNION SELECT tenure_door.range_of(w.partition_key) FROM tenure.waiting AS w) AS n),
       live.depth, (SELECT count(*) FROM tenure.dead), live.oldest_seconds,
       (SELECT count(*)::int FROM tenure.workers AS w WHERE w.status = 'alive' AND w.gone_at IS NULL),
       (SELECT i.last_error FROM tenure.waiting AS w JOIN tenure.live AS i ON i.id = w.row_id ORDER BY w.since LIMIT 1)
FROM (SELECT count(*) AS depth,
             extract(epoch FROM clock_timestamp() - min(i.available_at) FILTER (WHERE i.status = 'pending' AND i.available_at <= clock_timestamp()))::float8 AS oldest_seconds
      FROM tenure.live AS i) AS live
