-- bucket: the bucket of a partition key
-- in: partition_key text
-- out: bucket
SELECT tenure.bucket(:partition_key::text)
