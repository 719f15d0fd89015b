"""The maps of the house: what README, ARCHITECTURE and CONTRIBUTING say of the rooms is where things are."""

from __future__ import annotations

import re
from pathlib import Path

from house.test_floors import FLOORS, MODULES
from tenure.verbs.lifecycle import archive
from tenure.worker.config import Terms

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tenure"
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
README = (ROOT / "README.md").read_text()
CHANGES = re.findall(
    r"^\| (.+?) \| `(.+?)` \| (.+?) \|$",
    (ROOT / "CONTRIBUTING.md").read_text().split("## Where would you make this change?", 1)[1].split("\n## ", 1)[0],
    re.MULTILINE,
)
GLOSSARY = "docs/reference/glossary.md"
# Modules that a reader of the worker need not open first.
READ_LATER = {"__init__", "config", "health"}


def _room(path: str) -> str:
    return path.removeprefix("src/tenure/").split("/")[0].removesuffix(".py")


def test_every_change_begins_in_a_file_that_is_there() -> None:
    assert len(CHANGES) >= 15
    assert not [where for _, where, _ in CHANGES if not (ROOT / where).exists()]


def test_the_changes_take_a_reader_to_every_room() -> None:
    rooms = {room for floor in FLOORS for room in floor if not room.startswith("__")}
    rooms -= {"events", "log"}  # a change begins with whoever hears of it; nothing begins at an old name
    assert rooms <= {_room(where) for _, where, _ in CHANGES}


def test_few_changes_give_the_name_of_their_file_away() -> None:
    told = [change for change, where, _ in CHANGES if Path(where).stem.split("_")[0] in change.lower().split()]
    assert len(told) <= 3, told


def test_a_file_that_a_reason_names_is_there_too() -> None:
    for _, where, reason in CHANGES:
        for named in re.findall(r"`([\w/]+\.(?:py|js|sql))`", reason):
            assert (ROOT / where).parent.joinpath(named).exists() or (ROOT / named).exists(), f"{where}: {named}"


def test_the_architecture_lists_every_room_from_the_ground_up() -> None:
    listed = re.findall(r"^  (\w+)(?:\.py|/) ", ARCHITECTURE, re.MULTILINE)
    planned = [room for floor in FLOORS for room in floor if not room.startswith("__")]
    assert sorted(listed) == sorted(planned)
    floor_of = {room: number for number, floor in enumerate(FLOORS) for room in floor}
    floors = [floor_of[room] for room in listed]
    assert floors == sorted(floors), "a room stands above one that it may import"


def test_the_reading_order_has_every_part_of_the_worker() -> None:
    parts = {name.removeprefix("worker.") for name in MODULES if name.startswith("worker.")} - READ_LATER
    assert not [part for part in parts if f"(src/tenure/worker/{part}.py)" not in ARCHITECTURE]


def test_retention_is_told_as_it_is() -> None:
    told = (ROOT / "docs/guides/runbook.md").read_text().split("\n## retention\n")[1].split("\n## ")[0]
    given = archive().params
    days, key_days = (round(given[name] / 86_400) for name in ("retention_seconds", "key_retention_seconds"))
    assert Terms("postgresql://").retention_seconds == given["retention_seconds"]
    assert set(re.findall(r"\b(\d+) days", told)) == {str(days), str(key_days)}


def test_the_front_page_shows_and_then_tells() -> None:
    order = ["> *What happens when", "<!-- the race", "## Twelve lines", "## What is promised", "## What Tenure is not"]
    places = [README.index(part) for part in order]
    assert places == sorted(places)
    assert f"]({GLOSSARY})" in README
    assert f"]({GLOSSARY})" in ARCHITECTURE


def test_every_promise_of_the_front_page_links_to_its_test() -> None:
    promised = README.split("## What is promised", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (?!promise|---)(.+?) \| (.+) \|$", promised, re.MULTILINE)
    assert len(rows) >= 12
    for promise, tests in rows:
        assert re.search(r"\]\(tests/[\w/]+/test_\w+\.py\)", tests), promise


def test_every_reason_in_the_guide_to_why_has_a_test_that_quotes_it() -> None:
    guide = (ROOT / "docs/guides/why.md").read_text()
    reasons = [
        cell for cell in re.findall(r"^\| (.+?) \| .+ \|$", guide, re.MULTILINE) if cell not in ("it says", "---")
    ]
    assert len(reasons) >= 36
    tests = [
        ROOT / "tests" / name
        for name in ("guarantees/test_why.py", "guarantees/test_why_now.py", "chaos/test_two_phase.py")
    ]
    quoted = re.sub(r"\"\n\s*f?\"", "", "\n".join(path.read_text() for path in tests))
    pieces = [(reason, piece.strip(" ,")) for reason in reasons for piece in reason.split("…")]
    assert not [(reason, piece) for reason, piece in pieces if piece not in quoted]


def test_every_test_that_the_security_guide_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/guides/security.md").read_text()))
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    assert len(named) > 30
    assert named <= there, named - there
