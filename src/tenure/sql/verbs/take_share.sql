-- take_share: go down to the share of this inbox in a limit over several of them, or to nothing if it has just joined
-- in: queue text, said bigint, dealt bigint, inboxes text[], all_running int, all_rate float8, all_burst int, max_running int, rate_per_second float8, burst int, joins boolean
-- out: taken (false: a later deal is known here, or another limit was set since)
SELECT tenure.take_share(:queue, :said, :dealt, :inboxes::text[], :all_running::int, :all_rate::float8, :all_burst::int,
                         :max_running::int, :rate_per_second::float8, :burst::int, :joins)
