"""What must be true of ordered keys after any chaos: a pure judge of what was sent, the tape, and the handlers' ledger.

A stopped worker may still be running its handler while another has its row: that is what the fence is for. So the
judge looks at the leases, which the database gives and ends, and at those executions whose completion was accepted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Step(NamedTuple):
    """One row as its producer knows it: the key, who sent it, and its number among all that came from there."""

    key: str
    by: int
    seq: int


class Span(NamedTuple):
    """One attempt as the database recorded it: who had the row from when to when, and how it ended."""

    step: Step
    id: str
    token: int
    begin: float
    end: float
    outcome: str
    fence: int | None = None  # rows of one claim share it; None: of no claim but its own


@dataclass(frozen=True)
class Evidence:
    """All that is known after a run."""

    sent: Sequence[Step]  # committed by producers
    rows: Sequence[tuple[str, Step, str]]  # id, step, status: every row in every table
    spans: Sequence[Span]
    ledger: Sequence[Mapping[str, Any]]
    happened: Mapping[str, int] = field(default_factory=dict)  # kills, pauses and the like


@dataclass(frozen=True)
class Verdict:
    """What was found; `unknown` when nothing was, but too little happened for that to mean anything."""

    violations: Sequence[str]
    missing: Sequence[str]

    @property
    def word(self) -> str:
        """violated, unknown or valid."""
        return "violated" if self.violations else "unknown" if self.missing else "valid"

    def kinds(self) -> Counter[str]:
        """How many violations there are of each kind."""
        return Counter(violation.split(":")[0] for violation in self.violations)


def judge(evidence: Evidence, needed: Mapping[str, int] | None = None) -> Verdict:
    """Every violation there is, and whatever had to happen at least so often and did not."""
    happened = evidence.happened
    missing = [
        f"{what}: {happened.get(what, 0)} of {n}" for what, n in (needed or {}).items() if happened.get(what, 0) < n
    ]
    found = [*_fates(evidence), *_two_in_flight(evidence.spans), *_inversions(evidence), *_unearned(evidence)]
    return Verdict(found, missing)


def _fates(evidence: Evidence) -> Iterator[str]:
    """Every row that was committed is there once and completed; nothing else is there."""
    there = Counter(step for _id, step, _status in evidence.rows)
    sent = set(evidence.sent)
    yield from (f"lost: {step}" for step in sent if not there[step])
    yield from (f"duplicate: {step} is there {n} times" for step, n in there.items() if n > 1)
    yield from (f"ghost: {step} was never committed" for step in there if step not in sent)
    yield from (f"unfinished: {step} is {status}" for _id, step, status in evidence.rows if status != "completed")
    done = Counter(span.id for span in evidence.spans if span.outcome == "completed")
    yield from (f"duplicate: {id} was completed {n} times" for id, n in done.items() if n > 1)


def _two_in_flight(spans: Iterable[Span]) -> Iterator[str]:
    """The leases of one key never overlap, but for those of one claim: its rows are done one after the other."""
    for key, held in _by_key(spans).items():
        last = held[0]
        for span in held[1:]:
            if span.begin < last.end and (span.fence is None or span.fence != last.fence):
                yield f"two in flight: {key} {last} and {span}"
            last = max(last, span, key=lambda each: each.end)


def _inversions(evidence: Evidence) -> Iterator[str]:
    """What one producer sent to a key first is over before what it sent next begins, however often it is tried.

    Rows of a claim that went back before their handler began are left out. And a worker that had both in one claim may
    have done the first, begun the next, and died before the database knew: then both are done again.
    """
    began = {(line["id"], line["token"]) for line in evidence.ledger if line["what"] == "start"}
    back = ("released", "expired")
    ran = [span for span in evidence.spans if span.outcome not in back or (span.id, span.token) in began]
    of_claims = {(span.id, span.fence) for span in evidence.spans if span.fence is not None}
    for held in _by_key(ran).values():
        latest: dict[int, Span] = {}
        for span in held:
            before = latest.get(span.step.by)
            if before is not None and before.step.seq > span.step.seq and (span.id, before.fence) not in of_claims:
                yield f"inversion: {span} after {before}"
            latest[span.step.by] = span


def _unearned(evidence: Evidence) -> Iterator[str]:
    """An accepted completion belongs to an execution that ended, and in a key these too come one after another."""
    runs: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    for line in evidence.ledger:
        runs[line["id"], line["token"]][line["what"]] = line["at_ns"]
    accepted = [span for span in evidence.spans if span.outcome == "completed"]
    for held in _by_key(accepted).values():
        ended = 0
        for span in held:
            run = runs.get((span.id, span.token), {})
            if "end" not in run:
                yield f"unearned: {span} was accepted, its handler has not ended"
            elif run["start"] < ended:
                yield f"overlap: {span} began before the one before it had ended"
            ended = max(ended, run.get("end", 0))


def _by_key(spans: Iterable[Span]) -> dict[str, list[Span]]:
    found: dict[str, list[Span]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: (span.begin, span.end, span.step.seq)):
        found[span.step.key].append(span)
    return found


def ran_twice(ledger: Iterable[Mapping[str, Any]]) -> list[str]:
    """Ids of rows whose handler was started more than once."""
    starts = Counter(line["id"] for line in ledger if line["what"] == "start")
    return sorted(id for id, n in starts.items() if n > 1)
