-- end_reading: write into such a line how many rows were read, and that this was all
-- in: action bigint, rows bigint
-- out: id (NULL: there is no such open line)
SELECT tenure.end_reading(:action, :rows)
