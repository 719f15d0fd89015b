"""`make drill-ha` with nothing to judge, no kill or no rows in calm times: it fails in a sentence."""

from __future__ import annotations

import sys

import pytest

from chaos import drill_ha
from chaos.drill_ha import Rates, unharmed


@pytest.mark.parametrize("times", ["0", "-1"])
def test_a_drill_without_a_kill_is_refused(
    times: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["drill_ha", "--times", times])
    monkeypatch.setattr(drill_ha, "drill", lambda *_: True)
    with pytest.raises(SystemExit) as left:
        drill_ha.main()
    assert (left.value.code, f"--times: {times} must be at least 1" in capsys.readouterr().err) == (2, True)


def test_another_inbox_that_ran_nothing_in_calm_times_fails() -> None:
    assert not unharmed([Rates(0, 0)]).ok
    assert not unharmed([Rates(0, 9), Rates(0, 9)]).ok
    assert unharmed([Rates(100, 96), Rates(100, 97)]).ok
    assert not unharmed([Rates(100, 90), Rates(100, 97)]).ok
