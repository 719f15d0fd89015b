-- others: a row if the schema holds anything at all; where our record is missing, all of it is somebody else's
SELECT 1
WHERE EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('tenure'))
   OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = to_regnamespace('tenure'))
   OR EXISTS (SELECT FROM pg_type WHERE typnamespace = to_regnamespace('tenure'));
