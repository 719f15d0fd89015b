"""What a Django project says of Tenure: the dict TENURE of its settings, and the address of its database."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg import Connection, pq
from psycopg.conninfo import make_conninfo

from ... import settings as ours
from ...errors import BadSettings

OWN = {
    "DATABASE": "the name in DATABASES of the database with Tenure's tables",
    "INBOX": "the inbox with the handlers of the project, as MODULE:INBOX",
}
NOT_HERE = ("DATABASE_URL",)  # DATABASES says where the database is


def given() -> Mapping[str, Any]:
    """The dict TENURE; empty if the project has none."""
    found = getattr(settings, "TENURE", None) or {}
    if not isinstance(found, Mapping):
        raise BadSettings(f"TENURE={found!r} must be a dict, e.g. {{'INBOX': 'shop.jobs:inbox'}}")
    return found


def names() -> list[str]:
    """What TENURE may have: our own words, and every setting TENURE_… without its beginning."""
    known = [name.removeprefix("TENURE_") for name in ours.KNOWN]
    return sorted({*OWN, *known} - {*NOT_HERE})


def export() -> None:
    """Let TENURE stand where the variables TENURE_… stand, which come first: then an Inbox() and commands agree."""
    for name, value in given().items():
        if name not in OWN and name in names() and value is not None:
            os.environ.setdefault(f"TENURE_{name}", str(value))


def alias() -> str:
    """The name in DATABASES of the database with Tenure's tables."""
    return str(given().get("DATABASE", DEFAULT_DB_ALIAS))


def schema() -> str:
    """The schema of Tenure's tables."""
    found = ours.find("TENURE_SCHEMA", given().get("SCHEMA"), 'TENURE["SCHEMA"]')
    return ours.check_schema_name(found.value if found else ours.DEFAULT_SCHEMA)


def address(using: str) -> str:
    """Where a database of DATABASES is, in the words of libpq."""
    check_engine(using)
    words = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    params = connections[using].get_connection_params()
    return make_conninfo(**{name: value for name, value in params.items() if name in words and value is not None})


def raw(using: str) -> Connection[Any]:
    """The psycopg connection below Django's, in the transaction that is open there."""
    check_engine(using)
    connections[using].ensure_connection()
    conn: Connection[Any] = connections[using].connection
    return conn


def check_engine(using: str) -> None:
    """BadSettings unless this is a PostgreSQL that Django reaches by psycopg 3."""
    if using not in connections.settings:
        known = ", ".join(sorted(connections.settings))
        raise BadSettings(f"there is no database {using!r} in DATABASES: choose from {known}")
    if connections[using].vendor != "postgresql":
        vendor = connections[using].vendor
        raise BadSettings(
            f"DATABASES[{using!r}] is {vendor}: Tenure's tables are in PostgreSQL, "
            'name that database in TENURE["DATABASE"]'
        )
    if not getattr(connections[using].Database, "__name__", "").startswith("psycopg") or _is_psycopg2(using):
        raise BadSettings(f"Django reaches DATABASES[{using!r}] by psycopg2: install psycopg, which is version 3")


def _is_psycopg2(using: str) -> bool:
    return str(getattr(connections[using].Database, "__version__", "")).startswith("2")


def has_tasks() -> bool:
    """Whether there are tasks: with Django 6, or with the backport for versions before."""
    return any(find_spec(name) is not None for name in ("django.tasks", "django_tasks"))
