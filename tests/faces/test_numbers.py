"""Numbers on the command line: what is none is refused in one sentence, wherever a number is taken."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tenure.cli import tenure


@pytest.mark.parametrize(
    "words",
    [
        "demo --orders-per-second",
        "dev app:inbox --drain-seconds",
        "drill lease-race --lease-seconds",
        "drill explore --stall-seconds",
        "drill tune --arrivals-per-second",
        "health --timeout-seconds",
        "tail --seconds",
        "top --interval",
    ],
)
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "much"])
def test_what_is_no_number_is_refused(words: str, value: str) -> None:
    ran = CliRunner().invoke(tenure, [*words.split(), value])
    assert ran.exit_code == 2, ran.output
    assert f"Invalid value for '{words.split()[-1]}'" in ran.output
    assert value in ran.output
