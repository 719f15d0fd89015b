"""Rows as people and programs read them: columns that fit a terminal, fields that fit a JSON document."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from ..console.terminal import echo, sentence
from ..errors import telling_line
from ..model.rows import Row
from ..telemetry.log import printable
from ..verbs.search import Count
from .table import table

TOKENS = ("generation", "fence", "stale_token", "current_token")  # 64 bits, more than some readers of JSON can hold


def document(row: Row) -> dict[str, Any]:
    """A row as an object, its fields named as over HTTP; payload and headers stay the text they are."""
    return {
        "id": row.id,
        "status": row.status,
        "kind": row.kind,
        "queue": row.queue,
        "key": row.partition_key,
        "bucket": row.partition_bucket,
        "attempts": row.attempts,
        "max_attempts": row.max_attempts,
        "priority": row.priority,
        "ordered": row.ordered,
        "worker": row.claimed_by,
        "claimed_at": row.claimed_at,
        "lease_expires_at": row.lease_expires_at,
        "generation": row.lease_generation,
        "fence": row.fence_token,
        "available_at": row.available_at,
        "created_at": row.created_at,
        "finished_at": row.finished_at,
        "finished_by": row.finished_by,
        "last_error": row.last_error,
        "idempotency_key": row.idempotency_key,
        "cancel_asked": row.cancel_asked,
        "payload": row.payload,
        "headers": row.headers,
    }


def as_json(fields: Mapping[str, Any]) -> str:
    """One JSON object: keys sorted, times in UTC with a Z, tokens as text."""
    return json.dumps(_plain(fields), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Count):
        return value._asdict()
    if isinstance(value, Mapping):
        return {
            name: str(each) if name in TOKENS and each is not None else _plain(each) for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return said(value) if isinstance(value, datetime | UUID) else value


def said(value: object) -> str:
    """One value for people: a time in UTC, a yes or no, a dash for nothing; control characters are escaped."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return printable(str(value))


def counted(count: Count) -> str:
    """A number, with a plus if there may be more."""
    return f"{count.n:,}{'+' if count.more else ''}"


def error_line(error: str | None) -> str:
    """The error on one line, in full: grep finds its end, too."""
    return printable(telling_line(error))


def ago(then: datetime, now: datetime) -> str:
    """About how long ago; a future time has a plus."""
    seconds = (now - then).total_seconds()
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if abs(seconds) >= 2 * size:
            return f"{'+' if seconds < 0 else ''}{abs(seconds) / size:.0f}{unit}"
    return f"{'+' if seconds < 0 else ''}{abs(seconds):.0f}s"


class Lines(str):
    """A table as text, which remembers its cells, so that several can be told as one."""

    head: Sequence[str]
    found: Sequence[Sequence[str]]
    newness: Sequence[Any]


def lines(head: Sequence[str], found: Sequence[Sequence[str]], newness: Sequence[Any] = ()) -> Lines:
    """A table on a terminal; elsewhere one line a row without a head, cells separated by tabs.

    With `newness`, what says how new each line is, lines of several inboxes are told with the newest first.
    """
    if sys.stdout.isatty():
        text = table(head, found, shutil.get_terminal_size().columns)
    else:
        text = "\n".join("\t".join(map(printable, line)) for line in found)
    made = Lines(text)
    made.head, made.found, made.newness = head, found, newness
    return made


def show(head: Sequence[str], found: Sequence[Sequence[str]], nothing: str, newness: Sequence[Any] = ()) -> None:
    """Print what was found, or say on stderr that there is nothing."""
    if found:
        echo(lines(head, found, newness))
    else:
        remark(nothing)


def remark(text: str) -> None:
    """A remark about the answer, on stderr: it is not part of the answer."""
    sentence(text, err=True)
