"""The verbs of a fleet: a worker's own row, its presence, and the turns at housekeeping."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import BadSettings, WorkerEvicted
from ..model.payload import check_name
from ..model.rows import Swept
from .statement import Rows, Statement


def register(worker: str, metadata: Mapping[str, Any] | None = None) -> Statement[str]:
    """Enter a worker as alive, under an id never used before."""

    def read(rows: Rows) -> str:
        if not rows:
            raise BadSettings(f"worker id {worker!r} is taken: each process registers under an id of its own")
        return worker

    return Statement("register", {"worker": check_name(worker, "worker"), "metadata": json.dumps(metadata or {})}, read)


def heartbeat(worker: str, metadata: Mapping[str, Any] | None = None) -> Statement[str]:
    """Say that this worker lives and learn whether it is alive or draining; WorkerEvicted if it was declared dead."""
    return Statement(
        "heartbeat", {"worker": worker, "metadata": json.dumps(metadata or {})}, lambda rows: _own_status(rows, worker)
    )


def drain(worker: str) -> Statement[str]:
    """Let this worker claim nothing more."""
    return Statement("drain", {"worker": worker}, lambda rows: _own_status(rows, worker))


def _own_status(rows: Rows, worker: str) -> str:
    if not rows:
        raise WorkerEvicted(worker)
    return str(rows[0][0])


def sweep_workers(*, ttl_seconds: float = 30.0) -> Statement[dict[str, str]]:
    """Declare silent workers dead; touches no row of the inbox."""
    return Statement("sweep_workers", {"ttl_seconds": ttl_seconds}, lambda rows: dict(rows))


def appear(worker: str) -> Statement[str]:
    """Hold this worker's presence on the session that runs this; WorkerEvicted if it was declared dead."""
    return Statement("appear", {"worker": worker}, lambda rows: _own_status(rows, worker))


def set_waiting(worker: str, *, waiting: bool) -> Statement[bool]:
    """Say whether this worker sleeps and wants to be woken by an enqueue; False if the registry does not know it."""
    return Statement("set_waiting", {"worker": worker, "waiting": waiting}, bool)


def leave(worker: str) -> Statement[bool]:
    """Take this worker out of the registry; False if it was not in it any more."""
    return Statement("leave", {"worker": worker}, bool)


def take_turn(worker: str) -> Statement[frozenset[str]]:
    """The chores that are due now; whoever asks first has to do them."""
    return Statement("take_turn", {"worker": worker}, lambda rows: frozenset(name for (name,) in rows))


def notice(*, grace_seconds: float) -> Statement[dict[str, str]]:
    """Which workers' sessions are gone, are back, or were gone for too long (dead)."""
    return Statement("notice", {"grace_seconds": grace_seconds}, lambda rows: dict(rows))


def evict(*, grace_seconds: float, n: int = 1000) -> Statement[list[Swept]]:
    """End the attempts of workers whose session was gone for longer than the grace."""
    return Statement("evict", {"grace_seconds": grace_seconds, "n": n}, lambda rows: [Swept(*row) for row in rows])


def tell(note: str) -> Statement[None]:
    """Say something to every worker that listens: "ring", "queues", "cancel <worker>"."""
    return Statement("tell", {"note": note}, lambda _rows: None)


def echo(channel: str, note: str) -> Statement[None]:
    """Send a note on one channel: to oneself, to learn whether notes arrive at all."""
    return Statement("echo", {"channel": channel, "note": note}, lambda _rows: None)


def vacuum_live() -> Statement[None]:
    """Take the dead versions out of the hot table now; on a connection in autocommit."""
    return Statement("vacuum_live", {}, lambda _rows: None)
