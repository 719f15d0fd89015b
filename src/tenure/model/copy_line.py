"""A row as a line of COPY: tabs stand between its columns, and none in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ..errors import InvalidPayload
from .payload import check_row, encode, encode_headers
from .rows import NewRow

_ESCAPED = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


def copy_line(row: NewRow, now: str = "now") -> str:
    """The row as a line, checked like any other; a delay counts from now, on the producer's clock.

    What is due at once is due `now`: a time, or Postgres' own word for when its transaction began.
    """
    check_row(row)
    if row.idempotency_key is not None:
        raise InvalidPayload(f"idempotency_key={row.idempotency_key!r} cannot go through COPY: use enqueue_many")
    at = _due(row) if row.at or row.delay_seconds else now
    texts = f"{column(row.kind)}\t{column(encode(row.payload))}\t{column(row.key)}\t{column(row.queue)}"
    plain = f"{row.priority}\t{at}\t{row.max_attempts}\t{row.ordered}\t{row.hold}"
    return f"{texts}\t{plain}\t{column(encode_headers(row.headers))}\n"


def _due(row: NewRow) -> str:
    return (row.at.astimezone(UTC) if row.at else datetime.now(UTC) + timedelta(seconds=row.delay_seconds)).isoformat()


def column(text: str | None) -> str:
    """The text as COPY reads it back; None is NULL. It has no NUL characters.

    What ends a column or a line has a backslash before it, and so has the backslash itself.
    """
    if text is None:
        return "\\N"
    if text.isprintable() and "\\" not in text:
        return text
    for each, written in _ESCAPED:
        text = text.replace(each, written)
    return text
