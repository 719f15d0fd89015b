-- endpoint_states: how many endpoints are active, have an open circuit, are paused or disabled, and how many secrets are in clear
-- in: (none)
-- out: active, tripped, paused, disabled, in_clear
SELECT s.active, s.tripped, s.paused, s.disabled, s.in_clear FROM tenure.endpoint_states() AS s
