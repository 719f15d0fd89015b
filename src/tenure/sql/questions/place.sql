-- place: which inbox this is, whatever address leads there
-- in: (none)
-- out: place
-- why: a copy of a server has the numbers of the first; when it was started tells them apart.
SELECT concat_ws(' ', c.system_identifier, d.oid, 'tenure.live'::regclass::oid, date_part('epoch', pg_postmaster_start_time()))
FROM pg_catalog.pg_database AS d CROSS JOIN pg_catalog.pg_control_system() AS c
WHERE d.datname = current_database()
