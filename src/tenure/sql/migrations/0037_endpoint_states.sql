-- How many endpoints of webhooks are in which state, and how many have a secret in clear.
-- kind: expand
--
-- A function of the owner: nobody else may read a secret, not even to see whether it is sealed.

CREATE FUNCTION tenure.endpoint_states(OUT active int, OUT tripped int, OUT paused int, OUT disabled int, OUT in_clear int) LANGUAGE sql STABLE
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT count(*) FILTER (WHERE e.state = 'active' AND e.open_until IS NULL), count(*) FILTER (WHERE e.state = 'active' AND e.open_until IS NOT NULL),
         count(*) FILTER (WHERE e.state = 'paused'), count(*) FILTER (WHERE e.state = 'disabled'),
         count(*) FILTER (WHERE left(e.secret, 1) <> '{' OR left(e.secret_before, 1) <> '{')
  FROM tenure.endpoints AS e
$$;
