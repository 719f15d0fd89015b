"""Figures of a bench that a busy machine brings about: they are judged like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import latency
from bench.report import Bar, Report


def test_a_claim_that_was_quicker_than_the_answer_of_its_commit_can_be_compared() -> None:
    sent, claimed = [(1, 10.0), (2, 20.0)], {1: 9.999, 2: 20.5}
    quick, late = latency.waits(sent, lambda: claimed)
    assert 0 < quick < late == 0.5
    report = Report({"load": "0"}, quiet=True)
    report.ratio("late / quick", [late], [quick], Bar(1.6, least=False))
    assert [line.held for line in report.lines] == [False]


def test_figures_are_kept_where_no_other_user_can_have_put_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report = Report({"load": "0"}, quiet=True)
    one, other = (report.keep(None, "inboxes") for _ in range(2))
    assert one != other
    assert one.parent.stat().st_mode & 0o077 == 0
    assert one.read_text().startswith("{")
