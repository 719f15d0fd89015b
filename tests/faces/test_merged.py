"""The answers of several inboxes as one document: no row is left out between pages, counts are sums."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tenure.model.merged import merged
from tenure.telemetry.inbox_metrics import labelled
from tenure.web import inboxes
from tenure.web.routes import ROUTES


def page(*ids: str, next: str | None = None) -> dict[str, Any]:
    return {"rows": [{"id": id} for id in ids], "next": next, "searched": 100, "done": next is None}


def ids(document: dict[str, Any]) -> str:
    return "".join(row["id"] for row in document["rows"])


def test_a_page_ends_where_the_first_inbox_stopped_to_look() -> None:
    found = merged({"eu": page("h", "g", next="f"), "us": page("i", "b")}, 50)
    assert (ids(found), found["next"], found["done"], found["searched"]) == ("ihg", "f", False, 200)


def test_a_search_that_found_nothing_so_far_says_where_it_goes_on() -> None:
    found = merged({"eu": page(next="f"), "us": page(next="d")}, 50)
    assert (ids(found), found["next"], found["done"]) == ("", "f", False)


def test_a_full_page_ends_with_its_last_row() -> None:
    found = merged({"eu": page("h", "f", next="f"), "us": page("i", "g", next="g")}, 2)
    assert (ids(found), found["next"], found["done"]) == ("ih", "h", False)
    assert found["inboxes"] == {"eu": {"answers": True}, "us": {"answers": True}}


def test_one_inbox_goes_on_where_it_says() -> None:
    found = merged({"eu": page("h", next="c")}, 50)
    assert (ids(found), found["next"], found["done"]) == ("h", "c", False)


def searched(rows: str, before: str, n: int, reach: int, wanted: str) -> dict[str, Any]:
    """A page of one inbox, which looks at `reach` rows at most."""
    older = [row for row in sorted(rows, reverse=True) if row < before]
    seen: list[str] = []
    for looked, row in enumerate(older, 1):
        seen += row if row in wanted else ""
        if (len(seen) == n or looked == reach) and looked < len(older):
            return page(*seen, next=row)
    return page(*seen)


@pytest.mark.parametrize("seed", range(40))
def test_every_row_is_on_one_page(seed: int) -> None:
    dice = random.Random(seed)
    rows = [chr(each) for each in range(0x100, 0x100 + dice.randint(0, 60))]
    wanted = "".join(row for row in rows if dice.random() < 0.4)
    homes = {row: dice.choice(("eu", "us", "asia")) for row in rows}
    n, reach = dice.randint(1, 9), dice.randint(1, 9)
    seen, before = "", "\uffff"
    while True:
        pages = {
            inbox: searched("".join(row for row in rows if homes[row] == inbox), before, n, reach, wanted)
            for inbox in ("eu", "us", "asia")
        }
        found = merged(pages, n)
        assert len(found["rows"]) <= n
        seen += ids(found)
        if found["done"]:
            break
        assert found["next"] < before
        before = found["next"]
    assert seen == wanted[::-1]


def test_counts_are_sums() -> None:
    found = merged({"eu": {"n": 3, "more": False}, "us": {"n": 9999, "more": True}})
    assert (found["n"], found["more"]) == (10_002, True)
    assert merged({"eu": {"key": "a", "rows": 2}, "us": {"key": "a", "rows": 3}})["rows"] == 5
    assert merged({"eu": {"total": 2}, "us": {"total": None}})["total"] == 2


def test_an_act_that_goes_on_in_one_inbox_is_not_done() -> None:
    done = {"action": 4, "verb": "redrive", "matched": 2, "changed": 2, "skipped": 0, "done": True}
    found = merged({"eu": done, "us": {"action": 4, "verb": "redrive", "done": False}})
    assert (found["done"], found["changed"]) == (False, 2)
    assert found["inboxes"]["eu"] == {"answers": True, "action": 4, "done": True}
    assert found["inboxes"]["us"] == {"answers": True, "action": 4, "done": False}


def lately(at: list[str], backlog: dict[str, list[int]], wait: float | None, **run_p95: float | None) -> dict[str, Any]:
    return {
        "seconds": 3600,
        "backlog": {"at": at, "queues": [{"queue": q, "due": due} for q, due in backlog.items()], "cap": 10_000},
        "queues": [{"queue": "mail", "oldest_runnable_seconds": wait}],
        "kinds": [{"kind": kind, "run_p95": took} for kind, took in run_p95.items()],
        "kinds_since": None,
    }


def test_the_backlog_of_all_is_by_time_and_queue_and_the_slowest_come_first() -> None:
    eu = lately(["10:00", "10:10"], {"mail": [1, 2], "": [5, 50]}, None, a=3.0, b=1.0, c=None)
    us = lately(["10:10", "10:20"], {"sms": [9, 9], "mail": [3, 4]}, 7.0, d=2.0)
    found = merged({"eu": eu, "us": {**us, "kinds_since": "09:00"}})
    assert found["backlog"] == {
        "at": ["10:00", "10:10", "10:20"],
        "queues": [
            {"queue": "sms", "due": [0, 9, 9]},
            {"queue": "mail", "due": [1, 5, 4]},
            {"queue": "", "due": [5, 50, 0]},
        ],
        "cap": 10_000,
    }
    assert [(each["kind"], each["inbox"]) for each in found["kinds"]] == [
        ("a", "eu"),
        ("d", "us"),
        ("b", "eu"),
        ("c", "eu"),
    ]
    assert [each["inbox"] for each in found["queues"]] == ["us", "eu"]
    assert found["kinds_since"] == "09:00"


def test_a_line_of_metrics_ends_where_prometheus_ends_it() -> None:
    name = "a\u2028b\u0085c\x0bd\re"
    text = f'# HELP tenure_rows Rows.\n# TYPE tenure_rows gauge\ntenure_rows{{queue="{name}"}} 1\n'
    assert f'tenure_rows{{inbox="eu",queue="{name}"}} 1\n' in labelled({"eu": text})


def test_what_is_no_document_is_asked_in_one_inbox() -> None:
    known = {*inboxes.OURS, *inboxes.APART, *inboxes.OF_ONE}
    assert {*inboxes.OF_ONE, *inboxes.NUMBERED, *inboxes.APART} <= {route.path for route in ROUTES}
    assert not {route.path for route in ROUTES if isinstance(route.answers.get(200), tuple)} - known
