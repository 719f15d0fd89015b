-- Nodes that have ranges of keys, or are to have some, and no inbox that workers know.
SELECT d.nodename || ':' || d.nodeport FROM pg_catalog.pg_dist_node AS d
WHERE d.noderole = 'primary'
  AND (d.isactive AND d.shouldhaveshards
       OR EXISTS (SELECT FROM pg_catalog.pg_dist_placement AS p JOIN pg_catalog.pg_dist_shard AS s ON s.shardid = p.shardid
                  WHERE p.groupid = d.groupid AND s.logicalrelid = 'tenure_door.keys'::regclass))
  AND NOT EXISTS (SELECT FROM tenure_door.members() AS m WHERE m.inbox = d.groupid)
ORDER BY d.groupid
