"""What `tenure worker` says of itself on stderr: in words, or with --json as a line of JSON."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from ..console.terminal import echo
from ..errors import BUG
from .errors import explain


def tell_json(error: BaseException) -> int:
    """The error as a JSON line, a bug with its traceback; the exit code."""
    sentence, code = explain(error)
    more = {"traceback": "".join(traceback.format_exception(error))} if code == BUG else {}
    _say_json("error", {"event": "command_failed", "exit_code": code, "error": sentence, **more})
    return code


def tell_unknown(queues: Iterable[str], known: Iterable[str], *, as_json: bool) -> None:
    """Queues that no handler has: what was sent there by name is taken, but it may be a slip."""
    for queue in sorted(set(queues) - set(known)):
        if as_json:
            _say_json("warning", {"event": "queue_without_handler", "queue": queue})
        else:
            there = ", ".join(sorted(known))
            echo(f"tenure: no handler of this app has the queue {queue!r}: there are {there}", err=True)


def tell_address(url: str, *, as_json: bool) -> None:
    """Where it serves its health."""
    if as_json:
        _say_json("info", {"event": "health_served", "url": url})
    else:
        echo(f"health on {url}", err=True)


def _say_json(level: str, fields: dict[str, Any]) -> None:
    from ..telemetry.log import as_json

    with suppress(OSError):
        echo(as_json(datetime.now(UTC), level, fields), err=True)
