"""The verbs of workflows: record what steps returned, park until a time or a signal, signal, cancel, begin anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple
from uuid import UUID

from ..errors import BadSettings, StaleLease
from ..model.payload import check_name, check_row_key, clean_error, encode
from ..model.rows import Held, Settled
from .refusal import Found, judge, lease_params
from .statement import Rows, Statement, array, text_array

SIGNAL_BYTES_MAX = 123  # the step that waits for it is named wait:SIGNAL, which has at most 128
State = Literal["begun", "done", "failed", "waiting", "retrying", "timed_out", "cancelled", "patched"]


class Step(NamedTuple):
    """One step as it is recorded: where it stands in its run, what it is called, how it stands."""

    path: str
    n: int
    name: str
    state: str
    args_hash: int = 0
    tries: int = 1
    result: str | None = None  # as JSON
    error: str | None = None
    recorded_at: float = 0.0  # since 1970, on the database's clock; set by the database
    over: bool = False  # its time is up; set by the database
    until: float | None = None  # when that is, or was


class Recording(NamedTuple):
    """What one instance writes down: steps, and values that it shows."""

    lease: Held
    run: int
    steps: Sequence[Step]
    shown: Mapping[str, str] = {}


class Recorded(NamedTuple):
    """It is written down, at this time; perhaps somebody has asked the instance to stop."""

    moment: float
    cancel: str | None = None  # why, if it is to stop
    written: bool = True  # False: all of it was there before


class Wait(NamedTuple):
    """What a parked instance waits for: a signal (`wait:NAME`), a time, or the next try of a step (retrying)."""

    path: str
    n: int
    name: str
    state: str = "waiting"
    args_hash: int = 0
    tries: int = 1
    seconds: float | None = None
    at: float | None = None  # since 1970; the earlier of the two counts
    error: str | None = None


class Parking(NamedTuple):
    """A held row that goes to sleep: for so many seconds, or until one of its waits is met."""

    lease: Held
    waits: Sequence[Wait] = ()
    run: int = 1
    seconds: float | None = None
    cleaning: bool = False  # it knows that it is cancelled
    stays: bool = False  # it works elsewhere: its waits are written down and looked at, and it is not given back


class Parked(NamedTuple):
    """parked: it is given back · stays: nothing is met · awake: something is · cancelled: asked to stop · locked."""

    outcome: Literal["parked", "stays", "awake", "cancelled", "locked"]
    moment: float = 0.0
    met: tuple[Step, ...] = ()  # all its waits as they stand; one that is to be tried again now is due
    cancel: str | None = None  # why, if it is to stop


def record(recordings: Sequence[Recording]) -> Statement[list[Recorded | Settled]]:
    """Record steps of held instances; for each the time, or why it was refused (try_again: it was locked)."""
    steps = [(each.lease, each.run, step) for each in recordings for step in each.steps]
    shown = [(each.lease, key, value) for each in recordings for key, value in each.shown.items()]
    params = {
        **lease_params([each.lease for each in recordings]),
        **_step_params([(lease.id.hex, run) for lease, run, _ in steps], [step for *_, step in steps]),
        "step_fences": array([lease.fence for lease, *_ in steps]),
        "results": text_array([step.result for *_, step in steps]),
        "show_ids": array([lease.id.hex for lease, *_ in shown]),
        "keys": text_array([key for _, key, _ in shown]),
        "values": text_array([value for *_, value in shown]),
    }

    def read(rows: Rows) -> Any:
        found = {id: Recorded(moment, cancel, new) for id, cancel, moment, new, _ in rows}
        return _or_why("record", [each.lease for each in recordings], found)

    return Statement("record", params, read)


def park(parkings: Sequence[Parking], *, patient: bool = True) -> Statement[list[Parked | Settled]]:
    """Give held rows back until a time or a signal; no attempt is counted and the tape has no line of it.

    Not patient: a row whose instance is being signalled stays; unless a wait of it is met, it answers locked.
    """
    for each in parkings:
        if each.seconds is None and not each.waits:
            raise BadSettings(f"row {each.lease.id} would be parked for ever: give seconds=, or something to wait for")
    waits = [(each.lease.id.hex, each.run, wait) for each in parkings for wait in each.waits]
    params = {
        **lease_params([each.lease for each in parkings]),
        "delays": array([each.seconds for each in parkings]),
        "cleaning": array([each.cleaning for each in parkings]),
        "stays": array([each.stays for each in parkings]),
        "patient": patient,
        **_step_params([(id, run) for id, run, _ in waits], [wait for *_, wait in waits]),
        "step_delays": array([wait.seconds for *_, wait in waits]),
        "ats": array([wait.at for *_, wait in waits]),
    }

    def read(rows: Rows) -> Any:
        found: dict[UUID, Parked] = {}
        for id, outcome, path, n, state, result, until, moment in rows:
            met = (Step(path, n, "", state, result=result, until=until),) if path is not None else ()
            if (before := found.get(id)) is not None:
                found[id] = before._replace(met=before.met + met)
            else:
                found[id] = Parked(outcome, moment or 0.0, met, result if outcome == "cancelled" else None)
        return _or_why("park", [each.lease for each in parkings], found)

    return Statement("park", params, read)


def wake(ids: Sequence[UUID]) -> Statement[list[UUID]]:
    """Make parked rows due now; those not in the answer were due, held, or gone."""
    return Statement("wake", {"ids": array(sorted(ids))}, lambda rows: [row[0] for row in rows])


def recall(runs: Sequence[tuple[UUID, int]]) -> Statement[dict[UUID, list[Step]]]:
    """All records of these runs."""

    def read(rows: Rows) -> dict[UUID, list[Step]]:
        found: dict[UUID, list[Step]] = {id: [] for id, _ in runs}
        for id, path, n, name, state, args_hash, tries, at, over, result, error, until in rows:
            found[id].append(Step(path, n, name, state, args_hash, tries, result, error, at, bool(over), until))
        return found

    return Statement("recall", {"ids": array([id for id, _ in runs]), "runs": array([run for _, run in runs])}, read)


class Saying(NamedTuple):
    """What a held instance tells people."""

    lease: Held
    chunk: str


def say(sayings: Sequence[Saying]) -> Statement[list[UUID]]:
    """Add to what flows tell people: the ids of those whose lease is current; the others have said nothing."""
    params = {**lease_params([each.lease for each in sayings]), "chunks": text_array([each.chunk for each in sayings])}
    return Statement("say", params, lambda rows: [row[0] for row in rows])


class Signalled(NamedTuple):
    """delivered: into the step that waited · queued: kept until it is asked for · duplicate · ended · unknown."""

    id: UUID | None
    outcome: Literal["delivered", "queued", "duplicate", "ended", "unknown"]


def check_signal(name: str) -> str:
    """The name of a signal itself, or BadSettings."""
    if len(check_name(name, "signal").encode()) > SIGNAL_BYTES_MAX:
        raise BadSettings(f"signal={name[:40]!r}… is longer than {SIGNAL_BYTES_MAX} bytes: give it a shorter name")
    return name


def signal(
    row_id: UUID | None, name: str, payload: Any = None, *, named: str | None = None, once: str | None = None
) -> Statement[Signalled]:
    """Send a signal in the caller's transaction, to a row or to the holder of an idempotency key."""
    check_signal(name)
    if once is not None:
        check_row_key(once, "once")
    params = {"row_id": row_id, "named": named, "signal": name, "payload": encode(payload), "once": once}
    return Statement("signal", params, lambda rows: Signalled(*rows[0]))


def put_back(row_id: UUID, signals: Sequence[tuple[int, str, str]]) -> Statement[int]:
    """Put signals (number, name, payload as JSON) back before all that are queued: numbers below 0, in their order.

    For the holder of the row.
    """
    params = {
        "row_id": row_id,
        "ns": array([n for n, *_ in signals]),
        "names": text_array([name for _, name, _ in signals]),
        "payloads": text_array([payload for *_, payload in signals]),
    }
    return Statement("put_back", params, len)


def cancel_flow(
    row_id: UUID | None, *, named: str | None = None, reason: str = "cancelled by an operator"
) -> Statement[tuple[UUID | None, str]]:
    """Ask an instance to undo what it has done and end as cancelled: asked, ended or unknown.

    A dead letter comes back to undo what it did if the login may redrive, as an operator may; to others it has ended.
    """
    if not isinstance(reason, str):
        raise BadSettings(f"reason={reason!r} must be text: say why it is cancelled, or leave it out")
    params = {"row_id": row_id, "named": named, "reason": clean_error(reason)}
    return Statement("cancel_flow", params, lambda rows: (rows[0][0], rows[0][1]))


def anew(lease: Held, payload: str) -> Statement[int]:
    """Give a held instance back with this payload (JSON text) and no records: the number of its next run."""

    def read(rows: Rows) -> int | Statement[Any]:
        return int(rows[0][1]) if rows else _refused(lease)

    return Statement(
        "anew", {"id": lease.id, "generation": lease.generation, "fence": lease.fence, "payload": payload}, read
    )


def _step_params(places: Sequence[tuple[str, int]], steps: Sequence[Any]) -> dict[str, Any]:
    return {
        "step_ids": array([id for id, _ in places]),
        "runs": array([run for _, run in places]),
        "paths": text_array([step.path for step in steps]),
        "ns": array([step.n for step in steps]),
        "names": text_array([step.name for step in steps]),
        "states": text_array([step.state for step in steps]),
        "hashes": array([step.args_hash for step in steps]),
        "tries": array([step.tries for step in steps]),
        "errors": text_array([clean_error(step.error) for step in steps]),
    }


def _or_why(verb: str, leases: Sequence[Held], found: Mapping[UUID, Any]) -> Any:
    """The answers in order; for what was not answered, ask why on a new snapshot."""
    refused = [lease for lease in leases if lease.id not in found]
    if not refused:
        return [found[lease.id] for lease in leases]

    def read(rows: Rows) -> list[Any]:
        seen = {(id, fence): Found(*rest) for id, fence, *rest in rows}
        return [found.get(lease.id) or judge(lease, verb, seen.get(lease.identity)) for lease in leases]

    return Statement("standing", lease_params(refused), read)


def _refused(lease: Held) -> Statement[Any]:
    def read(rows: Rows) -> Any:
        found = judge(lease, "anew", Found(*rows[0][2:]) if rows else None)
        raise StaleLease(lease, "anew", found.reason, found.current)

    return Statement("standing", lease_params([lease]), read)
