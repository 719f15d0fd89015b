"""The verbs that settle: each ends an attempt under its lease, or says why it was refused."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, overload

from ..errors import BadSettings
from ..model.limits import DELAY_SECONDS_MAX
from ..model.payload import clean_error
from ..model.rows import Held, Identity, Settled
from .refusal import Found, judge, lease_params
from .statement import Rows, Statement, array, text_array


class AllCompleted(Sequence[Settled]):
    """The answer to a complete that was applied to all its leases: for thousands of jobs a second, made when read."""

    def __init__(self, leases: Sequence[Held]) -> None:
        self._leases = leases

    def __len__(self) -> int:
        return len(self._leases)

    @overload
    def __getitem__(self, n: int) -> Settled: ...
    @overload
    def __getitem__(self, n: slice) -> Sequence[Settled]: ...
    def __getitem__(self, n: int | slice) -> Settled | Sequence[Settled]:
        if isinstance(n, slice):
            return AllCompleted(self._leases[n])
        return Settled(self._leases[n], "complete", "applied", "completed")


def complete(
    leases: Sequence[Held],
    *,
    accept_late: bool = False,
    ordered: bool = True,
    keep_payload: bool = True,
    results: Sequence[str | None] | None = None,
) -> Statement[list[Settled]]:
    """Complete these rows; accept_late also accepts it after the lease ran out, if nobody else has taken the row.

    ordered=False says that none of them has an ordered key, which saves the database a look. keep_payload=False leaves
    their payloads out of the archive. `results` has a JSON text for each row that leaves one, and None for the others.
    """
    kept = None
    if results is not None:
        _check_parallel("results", results, leases)
        kept = text_array(results)
    how = {"accept_late": accept_late, "ordered": ordered, "keep": keep_payload, "results": kept}
    return _settle("complete", leases, how)


def complete_all(leases: Sequence[Held], **how: Any) -> Statement[Sequence[Settled]]:
    """The same for a worker's batches: if all were applied, the answer is an AllCompleted."""
    whole = complete(leases, **how)

    def read(rows: Rows) -> Any:
        return AllCompleted(leases) if rows[0][0] == len(leases) else whole.read(rows)

    return Statement(whole.name, whole.params, read)


def retry(
    leases: Sequence[Held], errors: Sequence[str | None], *, delays: Sequence[float | None] | None = None
) -> Statement[list[Settled]]:
    """End these attempts as failures: pending after a delay (or backoff), or dead_letter when attempts are used up."""
    return _settle("retry", leases, {"errors": errors, "delays": delays or [None] * len(leases)})


def release(
    leases: Sequence[Held], *, errors: Sequence[str | None] | None = None, delays: Sequence[float | None] | None = None
) -> Statement[list[Settled]]:
    """Give these rows back at once, or after a delay; the attempt does not count."""
    none = [None] * len(leases)
    return _settle("release", leases, {"errors": errors or none, "delays": delays or none})


def fail(leases: Sequence[Held], errors: Sequence[str | None]) -> Statement[list[Settled]]:
    """End these rows as failed: a permanent error."""
    return _settle("fail", leases, {"errors": errors})


def dead_letter(leases: Sequence[Held], errors: Sequence[str | None]) -> Statement[list[Settled]]:
    """End these rows as dead letters, for an operator."""
    return _settle("dead_letter", leases, {"errors": errors})


def _settle(verb: str, leases: Sequence[Held], extra: dict[str, Any]) -> Statement[list[Settled]]:
    # An attempt named twice ends once, and rows are locked in id order. The SQL of complete does both by itself.
    unique = {lease: n for n, lease in enumerate(leases)}.values() if verb != "complete" else ()
    in_order = sorted(unique, key=lambda n: leases[n].id.int)
    params = lease_params([leases[n] for n in in_order] if verb != "complete" else leases)
    for name in ("errors", "delays"):
        _check_parallel(name, extra.get(name, leases), leases)
    if "errors" in extra:
        params["errors"] = [clean_error(extra["errors"][n]) for n in in_order]
    if "delays" in extra:
        params["delays"] = array([_check_delay(extra["delays"][n]) for n in in_order])
    params |= {name: extra[name] for name in ("accept_late", "ordered", "keep", "results") if name in extra}

    def read(rows: Rows) -> list[Settled] | Statement[list[Settled]]:
        if verb == "complete" and rows[0][0] == len(leases):
            # Built as plain tuples: half the time of the constructor, for every job.
            return [tuple.__new__(Settled, (lease, verb, "applied", "completed", None, "", None)) for lease in leases]
        answers = _answers(verb, rows)
        applied = {
            lease: Settled(lease, verb, "applied", *answers[lease.identity])
            for lease in leases
            if lease.identity in answers
        }
        refused = [lease for lease in leases if lease not in applied]
        return _ask_why(verb, leases, applied, refused) if refused else [applied[lease] for lease in leases]

    return Statement(verb, params, read)


def _check_parallel(name: str, values: Sequence[object], leases: Sequence[Held]) -> None:
    if isinstance(values, str) or len(values) != len(leases):
        raise BadSettings(f"{name}={values!r} must be a list with one entry for each of the {len(leases)} leases")


def _answers(verb: str, rows: Rows) -> dict[Identity, tuple[str, datetime | None]]:
    """The new status of the rows whose write was accepted."""
    if verb == "complete":
        _, ids, fences, *_ = rows[0]
        return dict.fromkeys(zip(ids or (), fences or (), strict=True), ("completed", None))
    return {(id, fence): (status, next_at) for id, fence, status, next_at in rows}


def _check_delay(delay: float | None) -> float | None:
    if delay is not None and not 0 <= delay <= DELAY_SECONDS_MAX:
        raise BadSettings(f"delay={delay!r} must be between 0 and {DELAY_SECONDS_MAX:.0f} seconds, or None for backoff")
    return delay


def _ask_why(
    verb: str, leases: Sequence[Held], applied: dict[Held, Settled], refused: Sequence[Held]
) -> Statement[list[Settled]]:
    """Ask again on a new snapshot: only that shows what a concurrent transaction did to the rows."""

    def read(rows: Rows) -> list[Settled]:
        found = {(id, fence): Found(*rest) for id, fence, *rest in rows}
        judged = {lease: judge(lease, verb, found.get(lease.identity)) for lease in refused}
        return [applied.get(lease) or judged[lease] for lease in leases]

    return Statement("standing", lease_params(refused), read)
