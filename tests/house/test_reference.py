"""The reference is what the code says: every page that `make docs` makes is as it would make it now."""

from __future__ import annotations

import re

import pytest
import reference

from tenure.settings.known import KNOWN


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_of_the_reference_is_what_the_code_says(name: str) -> None:
    assert reference.FOLDER.joinpath(name).read_text() == reference.PAGES[name](), "run `make docs`, and commit it"


def test_a_setting_that_is_not_in_the_page_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setitem(KNOWN, "TENURE_NEW", "what nobody has written down")
    assert reference.FOLDER.joinpath("settings.md").read_text() != reference.settings_page()


def test_the_metrics_that_telemetry_explains_are_those_of_a_worker() -> None:
    """The guide says how each is counted; the reference has all of them."""
    guide = (reference.FOLDER.parent / "guides/telemetry.md").read_text().split("## Metrics", 1)[1].split("\n## ", 1)[0]
    of_worker = reference.metrics_page().split("## Of the fleet")[0]
    assert set(re.findall(r"`(tenure_\w+)`", guide)) == set(re.findall(r"^\| `(tenure_\w+)`", of_worker, re.MULTILINE))
