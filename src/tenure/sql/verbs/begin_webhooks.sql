-- begin_webhooks: limit the calls that one endpoint gets at once, unless somebody has set limits of the queue
-- in: queue text, per_key int
-- out: made, told
SELECT b.made, CASE WHEN b.made THEN pg_notify(tenure.channel(), 'queues')::text END FROM tenure.begin_webhooks(:queue, :per_key::int) AS b (made)
