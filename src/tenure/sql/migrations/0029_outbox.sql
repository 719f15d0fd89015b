-- Publish from SQL: an event is a row, like every other, of kind outbox:NAME.
-- kind: expand

-- SELECT tenure.publish('shop', 'order.paid', '{"order_id": 9182}', key => 'order:9182'). With a key, events are sent in order, and one
-- that its broker refuses for good holds its key. The data is measured as it will be sent: without the spaces that Postgres writes.
CREATE FUNCTION tenure.publish(outbox text, type text, data jsonb, key text DEFAULT NULL) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
  known_queue text := (SELECT d.queue FROM tenure.declared(format('outbox:%s', outbox)) AS d LIMIT 1);
  data_bytes bigint := octet_length(data::text);
  row_id uuid;
BEGIN
  IF type IS NULL OR type !~ '^[!-~]{1,200}$' THEN
    RAISE EXCEPTION 'type=% must be 1 to 200 visible ASCII characters, such as order.paid', COALESCE(left(type, 60), 'NULL')
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF outbox IS NULL OR data IS NULL THEN
    RAISE EXCEPTION 'publish needs an outbox and data: SELECT publish(''shop'', ''order.paid'', ''{}'')'
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF data_bytes > 1000000 THEN
    data_bytes := data_bytes - length(regexp_replace(regexp_replace(data::text, '"(?:[^"\\]|\\.)*"', '', 'g'), '[^ ]', '', 'g'));
  END IF;
  IF data_bytes > 1000000 THEN
    RAISE EXCEPTION 'the data of an event has % bytes, a broker takes 1000000: store it, and publish its address', data_bytes
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT sent.row_id INTO row_id FROM tenure.enqueue(
    format('outbox:%s', outbox), jsonb_build_object('type', type, 'data', data), partition_key => key, queue => COALESCE(known_queue, format('outbox:%s', outbox)),
    ordered => key IS NOT NULL, hold => key IS NOT NULL) AS sent;
  RETURN row_id;
END
$$;
