-- lanes: the queues and priorities that hold unordered rows, most urgent first
-- in: (none)
-- out: queue, priority
SELECT l.queue, l.priority FROM tenure.lanes() AS l ORDER BY l.priority DESC, l.queue
