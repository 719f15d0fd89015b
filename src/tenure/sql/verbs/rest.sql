-- rest: enqueue nothing more from a schedule in this inbox, because its home is another one
-- in: name text, expected timestamptz (next_at as it was read)
-- out: name
-- why: whoever moves it takes next_at along. If it has fired since that was read, the tick would be fired again in its home.
UPDATE tenure.schedules AS s SET next_at = '9999-01-01T00:00:00Z', updated_at = clock_timestamp()
WHERE s.name = :name
  AND s.next_at = :expected
RETURNING s.name
