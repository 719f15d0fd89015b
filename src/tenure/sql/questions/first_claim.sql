-- first_claim: when the first line of the list of claims is to be looked at, from a floor on
-- in: from_until float8 (epoch seconds)
-- out: until_seconds (NULL: none), at_seconds (the clock when it was read)
-- why: where the next sweep may begin. Lines that were looked at are gone, but an old snapshot keeps their versions in the index.
SELECT date_part('epoch', (SELECT c.until FROM tenure.claims AS c
                           WHERE c.until >= tenure.since(:from_until)
                           ORDER BY c.until LIMIT 1)),
       date_part('epoch', statement_timestamp())
