"""System checks: what must be true of a Django project with Tenure, one sentence each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from django.core import checks

from ...errors import TenureError
from ...postgres import migrate
from . import conf


def of_the_settings(app_configs: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Without a connection: what TENURE and DATABASES say."""
    try:
        given = conf.given()
    except TenureError as error:
        return [checks.Error(str(error), id="tenure.E001")]
    found: list[checks.CheckMessage] = [_unknown(name) for name in given if name not in conf.names()]
    try:
        conf.check_engine(conf.alias())
    except TenureError as error:
        found.append(checks.Error(str(error), id="tenure.E002"))
    try:
        conf.schema()
    except TenureError as error:
        found.append(checks.Error(str(error), id="tenure.E004"))
    inbox = given.get("INBOX")
    if inbox is not None and (not isinstance(inbox, str) or not all(inbox.rpartition(":")[::2])):
        found.append(
            checks.Error(f"TENURE['INBOX']={inbox!r} must be MODULE:INBOX, e.g. 'shop.jobs:inbox'", id="tenure.E005")
        )
    return found


def of_the_database(
    app_configs: Any = None, databases: Iterable[str] | None = None, **_: Any
) -> list[checks.CheckMessage]:
    """With one, as `manage.py check --deploy --database default` asks: is the schema up to date?"""
    using = conf.alias()
    if using not in (databases or ()):
        return []
    try:
        migrate.require(conf.raw(using), conf.schema())
    except TenureError as error:
        step = f"run `manage.py migrate tenure{'' if using == 'default' else f' --database {using}'}`"
        return [checks.Error(f"{str(error).partition(':')[0]}: {step}", id="tenure.E010")]
    return []


def _unknown(name: str) -> checks.CheckMessage:
    near = difflib.get_close_matches(str(name), conf.names(), 1)
    step = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(conf.names())}"
    return checks.Error(f"TENURE has the unknown name {name!r}: {step}", id="tenure.E003")
