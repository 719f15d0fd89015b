"""The verbs of a fleet: a worker's row in the registry, its presence, and whose turn it is at housekeeping."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..errors import BadSettings, WorkerEvicted
from ..model.payload import check_name
from ..model.rows import Swept
from .statement import Rows, Statement, text_array


def register(worker: str, metadata: Mapping[str, Any] | None = None) -> Statement[str]:
    """Add a worker to the registry as alive, under an id never used before."""

    def read(rows: Rows) -> str:
        if not rows:
            raise BadSettings(f"worker id {worker!r} is taken: each process needs its own id")
        return worker

    return Statement("register", {"worker": check_name(worker, "worker"), "metadata": json.dumps(metadata or {})}, read)


def heartbeat(worker: str, metadata: Mapping[str, Any] | None = None) -> Statement[str]:
    """Say that this worker is alive; returns alive or draining, WorkerEvicted if it was declared dead."""
    return Statement(
        "heartbeat", {"worker": worker, "metadata": json.dumps(metadata or {})}, lambda rows: _own_status(rows, worker)
    )


def drain(worker: str) -> Statement[str]:
    """This worker claims nothing more."""
    return Statement("drain", {"worker": worker}, lambda rows: _own_status(rows, worker))


def _own_status(rows: Rows, worker: str) -> str:
    if not rows:
        raise WorkerEvicted(worker)
    return str(rows[0][0])


def sweep_workers(*, ttl_seconds: float = 30.0) -> Statement[dict[str, str]]:
    """Declare workers dead whose heartbeat stopped; changes no row of the inbox."""
    return Statement("sweep_workers", {"ttl_seconds": ttl_seconds}, lambda rows: dict(rows))


def appear(worker: str) -> Statement[str]:
    """Show this worker's presence for as long as this session lasts; WorkerEvicted if it was declared dead."""
    return Statement("appear", {"worker": worker}, lambda rows: _own_status(rows, worker))


def set_waiting(worker: str, *, waiting: bool) -> Statement[bool]:
    """Tell producers whether this worker sleeps and must be woken by an enqueue; False if it is not registered."""
    return Statement("set_waiting", {"worker": worker, "waiting": waiting}, bool)


def leave(worker: str) -> Statement[bool]:
    """Remove this worker from the registry; False if it was not there."""
    return Statement("leave", {"worker": worker}, bool)


class Turn(NamedTuple):
    """The chores that one worker was given: what there is to do, and what is done because it would find nothing."""

    due: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()  # of those


def take_turn(worker: str, *, sweep_from: float = float("-inf"), chores: Iterable[str] = ()) -> Statement[Turn]:
    """The chores that are due now; the first worker that asks has to do them. Claims are looked at from a time on.

    Of the chores that applications have added, it is given those it names.
    """

    def read(rows: Rows) -> Turn:
        return Turn(frozenset(name for name, _ in rows), frozenset(name for name, anything in rows if not anything))

    params = {"worker": worker, "from_until": sweep_from, "chores": text_array([*chores])}
    return Statement("take_turn", params, read)


def add_chore(name: str, seconds: float) -> Statement[None]:
    """Enter a chore of an application, or change how often it is done."""
    params = {"name": check_name(name, "chore"), "seconds": float(seconds)}
    return Statement("add_chore", params, lambda _rows: None)


def notice(*, grace_seconds: float) -> Statement[dict[str, str]]:
    """Which workers' sessions are gone, are back, or were gone for too long (dead)."""
    return Statement("notice", {"grace_seconds": grace_seconds}, lambda rows: dict(rows))


def evict(*, grace_seconds: float, n: int = 1000) -> Statement[list[Swept]]:
    """End the attempts of workers whose session was gone for longer than the grace."""
    return Statement("evict", {"grace_seconds": grace_seconds, "n": n}, lambda rows: [Swept(*row) for row in rows])


def tell(note: str) -> Statement[None]:
    """Send a note to every worker that listens: "ring", "queues", "cancel <worker>"."""
    return Statement("tell", {"note": note}, lambda _rows: None)


def echo(channel: str, note: str) -> Statement[None]:
    """Send a note on one channel; a worker sends one to itself, to test whether notes arrive."""
    return Statement("echo", {"channel": channel, "note": note}, lambda _rows: None)


def vacuum_live() -> Statement[None]:
    """Vacuum the hot table now; needs a connection in autocommit."""
    return Statement("vacuum_live", {}, lambda _rows: None)
