"""The judge of the soak finds what it is there for: one forged run for each kind of violation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from chaos.checker import Evidence, Span, Step, judge, ran_twice

ONE, TWO = Step("k", 0, 1), Step("k", 0, 2)


def clean() -> Evidence:
    """Two rows of a key; the first is lost by a stopped worker, which ends its handler long after, unaccepted."""
    spans = [
        Span(ONE, "a", 1, 0.0, 2.0, "expired"),
        Span(ONE, "a", 2, 3.0, 4.0, "completed"),
        Span(TWO, "b", 1, 4.0, 5.0, "completed"),
    ]
    ledger = [
        _line("start", "a", 1, 1),
        _line("start", "a", 2, 30),
        _line("end", "a", 2, 39),
        _line("start", "b", 1, 41),
        _line("end", "a", 1, 45),
        _line("end", "b", 1, 49),
    ]
    return Evidence([ONE, TWO], [("a", ONE, "completed"), ("b", TWO, "completed")], spans, ledger, {"kills": 1})


def _line(what: str, id: str, token: int, at_ns: int) -> dict[str, object]:
    return {"what": what, "id": id, "token": token, "at_ns": at_ns}


def spans(*changed: Span) -> Callable[[Evidence], Evidence]:
    return lambda evidence: dataclasses.replace(evidence, spans=changed)


def rows(*changed: tuple[str, Step, str]) -> Callable[[Evidence], Evidence]:
    return lambda evidence: dataclasses.replace(evidence, rows=changed)


def test_a_run_in_which_all_went_well_is_valid_though_a_stopped_worker_overlaps() -> None:
    assert judge(clean(), {"kills": 1}).word == "valid"


def test_too_little_chaos_leaves_the_verdict_unknown() -> None:
    verdict = judge(clean(), {"kills": 2})
    assert (verdict.word, verdict.missing) == ("unknown", ["kills: 1 of 2"])


FORGED: dict[str, Callable[[Evidence], Evidence]] = {
    "lost": rows(("a", ONE, "completed")),
    "duplicate": rows(("a", ONE, "completed"), ("b", TWO, "completed"), ("c", TWO, "completed")),
    "ghost": rows(("a", ONE, "completed"), ("b", TWO, "completed"), ("c", Step("k", 0, 3), "completed")),
    "unfinished": rows(("a", ONE, "completed"), ("b", TWO, "processing")),
    "two in flight": spans(Span(ONE, "a", 2, 3.0, 4.0, "completed"), Span(TWO, "b", 1, 3.9, 5.0, "completed")),
    "inversion": spans(Span(TWO, "b", 1, 1.0, 2.0, "completed"), Span(ONE, "a", 2, 3.0, 4.0, "completed")),
    "unearned": spans(Span(ONE, "a", 3, 3.0, 4.0, "completed"), Span(TWO, "b", 1, 4.0, 5.0, "completed")),
    "overlap": lambda evidence: dataclasses.replace(
        evidence, ledger=[_line("start", "b", 1, 35) if line["at_ns"] == 41 else line for line in evidence.ledger]
    ),
}


@pytest.mark.parametrize("kind", FORGED)
def test_control_a_forged_run_is_found_out(kind: str) -> None:
    verdict = judge(FORGED[kind](clean()), {"kills": 1})
    assert verdict.word == "violated"
    assert kind in verdict.kinds()


def test_control_an_order_broken_only_between_attempts_is_an_inversion() -> None:
    between = [
        Span(ONE, "a", 1, 0.0, 1.0, "retried"),
        Span(TWO, "b", 1, 1.0, 2.0, "completed"),
        Span(ONE, "a", 2, 3.0, 4.0, "completed"),
    ]
    assert "inversion" in judge(spans(*between)(clean())).kinds()


def test_control_a_second_acceptance_is_a_duplicate() -> None:
    twice = [Span(ONE, "a", 2, 3.0, 4.0, "completed"), Span(ONE, "a", 3, 4.0, 5.0, "completed")]
    assert "duplicate" in judge(spans(*twice)(clean())).kinds()


def test_control_a_row_that_ran_twice_is_found() -> None:
    assert ran_twice(clean().ledger) == ["a"]
