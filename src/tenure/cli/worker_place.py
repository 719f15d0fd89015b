"""Where a worker works: in one database, in several by name, or on the nodes of a Citus cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import BadSettings
from ..settings import DEFAULT_SCHEMA, check_schema_name, find, number, on_citus, shards
from .database import opened

CITUS_POLL_SECONDS = 0.25  # a transaction of two nodes is silent: it cannot be prepared with a note in it


@contextmanager
def where_it_works(database_url: str | None, schema: str | None, rest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The database, the shards or the nodes, as terms of a worker."""
    given, citus = rest.pop("shards"), on_citus(rest.pop("citus") or None)
    if given and database_url:
        raise BadSettings("--database-url and --shards: give one of them; the shards have URLs of their own")
    if given and citus:
        raise BadSettings("--citus and --shards: give one of them; the coordinator knows the nodes")
    found = {} if database_url or citus else shards(given)
    if found:
        yield {"shards": found, "schema": check_schema_name(schema or DEFAULT_SCHEMA)}
        return
    with opened(database_url, schema) as database:
        if not citus:
            yield {"url": database.url, "schema": database.schema}
            return
        from ..postgres.citus_door import node_urls

        os.environ["TENURE_CITUS"] = "on"  # its children send as it does
        nodes = node_urls(database.url, database.schema)
        yield {"shards": nodes, "citus": database.url, "schema": database.schema}


def poll_seconds(given: float | None, *, citus: bool) -> float:
    """How often it polls: more often on Citus, unless somebody says how often."""
    found = find("TENURE_POLL_SECONDS", given, "--poll-seconds")
    if citus and found is not None and found.source == "default":
        return CITUS_POLL_SECONDS
    return number("TENURE_POLL_SECONDS", given, "--poll-seconds")
