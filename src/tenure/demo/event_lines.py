"""Which events get a line in the demo, and its words: who, what, and the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..drills.stage.picture import bare
from ..errors import telling_line
from ..model.rows import BUCKETS

Fields = dict[str, Any]
ERROR_MAX = 80


class Words(NamedTuple):
    """One line, in its columns; an empty `who` means the reporter of the event."""

    what: str
    rest: str = ""
    who: str = ""
    colour: str | None = None


def _of_worker(what: str, colour: str | None = None) -> Callable[[Fields], Words]:
    """What was done to a worker, and what it held then."""

    def words(fields: Fields) -> Words:
        held = fields.get("held")
        rest = f"while holding {held}" if held else f"pid {fields['pid']}"
        return Words(what, rest, fields["worker"], colour)

    return words


def _gone(fields: Fields) -> Words | None:
    """A killed worker has its line already."""
    return None if fields["exit_code"] == -9 else Words("gone", f"exit code {fields['exit_code']}", fields["worker"])


def _seen(fields: Fields) -> Words:
    return Words(f"worker_{fields['seen']}", f"{bare(fields['other'])}, as {bare(fields['worker'])} sees it", "fleet")


def _moved(fields: Fields) -> Words:
    left, joined = fields["left"], fields["joined"]
    changes = {f"without {left}": left, f"with {joined}": joined}
    who = f"{joined} anew" if left == joined else " and ".join(words for words, name in changes.items() if name)
    return Words("ring_moved", f"{fields['moved']} of {BUCKETS} buckets, {fields['needless']} needless; {who}")


def _blocked(fields: Fields) -> Words | None:
    """A refused release gets no line: it would have written nothing."""
    if fields["verb"] == "release":
        return None
    names = ("stale_token", "current_token", "reason")
    return Words("stale_write_blocked", " ".join(f"{name}={fields[name]}" for name in names), colour="yellow")


def _failed(what: str, colour: str) -> Callable[[Fields], Words]:
    return lambda fields: Words(what, telling_line(fields["error"])[:ERROR_MAX], colour=colour)


# Of the fleet: each gets a line.
FLEET: dict[str, Callable[[Fields], Words | None]] = {
    "worker_hired": _of_worker("started"),
    "worker_killed": _of_worker("killed (SIGKILL)", "red"),
    "worker_paused": _of_worker("paused (SIGSTOP)", "yellow"),
    "worker_resumed": _of_worker("resumed (SIGCONT)", "yellow"),
    "worker_asked_to_drain": _of_worker("draining (SIGTERM)", "yellow"),
    "worker_gone": _gone,
    "worker_seen": _seen,
    "ring_moved": _moved,
    "leases_swept": lambda fields: Words("leases_swept", f"{fields['rows']} free again: {fields['reason']}"),
    "database_cut": lambda _: Words("database cut", "no worker reaches it", "demo", "red"),
    "database_healed": lambda _: Words("database healed", "", "demo", "green"),
    "database_unreachable": lambda _: Words("database_unreachable"),
    "database_back": lambda fields: Words("database_back", f"after {fields['away_seconds']:.1f} s"),
    "refused": lambda fields: Words(fields["why"], who="demo", colour="yellow"),
}

# Of one row: each gets a line, because it does not happen to every row.
ROW: dict[str, Callable[[Fields], Words | None]] = {
    "enqueue_deduplicated": lambda _: Words("enqueue_deduplicated", "it is there already", colour="green"),
    "mail_already_sent": lambda _: Words("mail_already_sent", "not sent again"),
    "stale_write_blocked": _blocked,
    "job_retried": _failed("job_retried", "yellow"),
    "job_dead_lettered": _failed("job_dead_lettered", "red"),
}

# Of one row: a line for the row that the tour is about, and for any row with a token above 1.
STEPS: dict[str, Callable[[Fields], Words | None]] = {
    "enqueued": lambda _: Words("enqueued", "in the order's own transaction"),
    "lease_acquired": lambda fields: Words("lease_acquired", f"token={fields['token']}"),
    "mail_sent": lambda fields: Words("mail_sent", f"token={fields['token']}"),
    "ledger_written": lambda fields: Words("ledger_written", f"token={fields['token']}", colour="green"),
}
