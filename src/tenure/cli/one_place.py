"""Whether two of several inboxes are one database by two addresses: what is counted would be counted twice."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from .. import postgres
from ..errors import BadSettings
from ..postgres.connection import soon_given_up
from ..verbs.questions import place
from ..worker.places import Places
from .inbox_told import Told, side_by_side


def one_place(urls: Mapping[str, str], schema: str) -> BadSettings | None:
    """The refusal, if there are two such; who does not answer, or has no schema, is not compared."""
    found: dict[str, str] = {}

    def look(inbox: str) -> Told:
        try:
            with postgres.connect(soon_given_up(urls[inbox]), application_name="tenure look") as conn:
                found[inbox] = postgres.run(conn, place(), schema)
        except Exception as error:
            return Told(inbox, (), error=error)
        return Told(inbox, ())

    side_by_side({inbox: partial(look, inbox) for inbox in urls})
    known = Places({}, schema)
    try:
        for inbox in urls:
            if inbox in found:
                known.check(inbox, found[inbox])
    except BadSettings as refused:
        return refused
    return None
