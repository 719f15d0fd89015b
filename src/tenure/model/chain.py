"""The chain of the audit: what a link's hash is made of, and where a chain does not fit. Needs no database."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

START = "0" * 64  # the hash before the first link of all


class Link(NamedTuple):
    """One link with its line; `id` is None where the line is gone. An open line is linked as begun, and again ended."""

    seq: int
    line: int
    ended: bool
    before: str
    hash: str
    id: int | None
    at: datetime | None
    done_at: datetime | None
    actor: str | None
    via: str | None
    verb: str | None
    target: str | None
    reason: str | None
    rows: int | None
    database_user: str | None


class Unfit(NamedTuple):
    """The first link that does not fit, its line, and why."""

    seq: int
    line: int
    why: str


class Walk:
    """Goes along a chain, link by link, from a hash that is known."""

    def __init__(self, seq: int = 0, hash: str = START) -> None:
        self.seq, self.hash, self.links = seq, hash, 0

    def along(self, links: Iterable[Link]) -> Unfit | None:
        """Go on over these links; the first that does not fit, if there is one."""
        for each in links:
            why = self._fault(each)
            if why:
                return Unfit(each.seq, each.line, why)
            self.seq, self.hash, self.links = each.seq, each.hash, self.links + 1
        return None

    def _fault(self, link: Link) -> str | None:
        if link.seq != self.seq + 1:
            return f"link {self.seq + 1} before it is missing"
        if link.before != self.hash:
            return "it names another hash than that of the link before"
        if link.id is None:
            return "the line is gone"
        if made(link) != link.hash:
            return "the line was changed after it was linked"
        return None


def made(link: Link) -> str:
    """The hash that this link must have: SHA-256 of the hash before, a line feed, and the line as a JSON array."""
    ended = link.ended
    words = [
        str(link.seq),
        str(link.line),
        "ended" if ended else "begun",
        _time(link.at),
        *(link.actor, link.via, link.verb, link.target, link.reason, link.database_user),
        str(link.rows) if ended else "",
        _time(link.done_at) if ended else "",
    ]
    return hashlib.sha256(f"{link.before}\n{json.dumps(words, ensure_ascii=False)}".encode()).hexdigest()


def _time(at: datetime | None) -> str | None:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}" if at else None
