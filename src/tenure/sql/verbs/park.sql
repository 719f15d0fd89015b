-- park: give held rows back until a time or a signal, without a trace on the tape and without a cost; what is met already wakes them
-- in: ids uuid[], generations bigint[], fences bigint[], delays float8[] (seconds, NULL: as its waits say), cleaning boolean[] (it knows that it is cancelled), stays boolean[] (it works elsewhere: its waits are written down and looked at, and it is not given back), patient boolean, step_ids uuid[], runs int[], paths text[], ns int[], names text[], states text[], hashes bigint[], tries int[], step_delays float8[], ats float8[] (epoch seconds), errors text[]
-- out: id, outcome (parked, stays, awake, cancelled, locked), path, n, state, result (if cancelled: why), until (epoch seconds), moment
SELECT parked.row_id, parked.outcome, parked.path, parked.n, parked.state, parked.result, parked.until, parked.moment
FROM tenure.park(:ids::uuid[], :generations::bigint[], :fences::bigint[], :delays::float8[], :cleaning::boolean[], :stays::boolean[], :patient,
                 :step_ids::uuid[], :runs::int[], :paths::text[], :ns::int[], :names::text[], :states::text[], :hashes::bigint[], :tries::int[], :step_delays::float8[],
                 :ats::float8[], :errors::text[]) AS parked
