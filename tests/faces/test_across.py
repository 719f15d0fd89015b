"""`tenure queues limit --across`: one number for all inboxes, dealt out among them."""

from __future__ import annotations

import pytest

from faces.test_inboxes import NOWHERE, document, tenure
from pairs import Pair
from tenure.errors import TRY_LATER, USAGE

pytestmark = pytest.mark.one_server


def set_in(pair: Pair) -> list[list[tuple[object, ...]]]:
    """The limits of each inbox."""
    return [world.sql("SELECT max_running, rate_per_second, burst FROM queues") for world in pair]


def test_shares_are_dealt_and_told_and_the_audit_has_one_act(pair: Pair) -> None:
    answer = tenure(pair, "queues", "limit", "mail", "--max-running", "5", "--across")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == "eu: mail: 0 of 3 processing\nus: mail: 0 of 2 processing\n"
    assert set_in(pair) == [[(3, None, None)], [(2, None, None)]]
    lines = document(pair, "audit")["audit"]
    assert {line["target"] for line in lines} == {"mail max_running=5 across=eu,us"}
    assert len({line["via"] for line in lines}) == 1


def test_a_rate_is_dealt_too_and_said_again_it_is_another_one(pair: Pair) -> None:
    first = document(pair, "queues", "limit", "mail", "--rate", "10", "--across")
    assert [(each["inbox"], each["rate_per_second"], each["burst"]) for each in first["inboxes"]] == [
        ("eu", 5.0, 5),
        ("us", 5.0, 5),
    ]
    again = document(pair, "queues", "limit", "mail", "--max-running", "8", "--across")
    assert [(each["max_running"], each["rate_per_second"], each["raised"]) for each in again["inboxes"]] == [
        (4, None, True)
    ] * 2
    assert set_in(pair) == [[(4, None, None)]] * 2


def test_while_one_inbox_is_away_nothing_is_changed(pair: Pair) -> None:
    answer = tenure(pair, "queues", "limit", "mail", "--max-running", "5", "--across", b=NOWHERE)
    assert (answer.returncode, answer.stdout) == (TRY_LATER, "")
    assert "1 of 2 inboxes answer: us says:" in answer.stderr
    assert "nothing was changed" in answer.stderr
    assert set_in(pair) == [[], []]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--max-running", "1"), "--max-running 1 cannot be dealt over 2 inboxes: give 2 or more"),
        (("--rate", "0.5"), "--burst 1 cannot be dealt over 2 inboxes: give 2 or more"),
        (("--max-per-key", "2"), "--max-per-key is the same in each inbox"),
        (("--clear",), "--clear is the same in each inbox"),
        (("--max-running", "0"), "--max-running 0 must be a whole number"),
        ((), "no limit is given"),
        (("--max-running", "4", "--inbox", "eu"), "--across deals a limit over several inboxes"),
    ],
)
def test_what_cannot_be_dealt_is_refused_in_one_sentence(pair: Pair, words: tuple[str, ...], told: str) -> None:
    answer = tenure(pair, "queues", "limit", "mail", "--across", *words)
    assert answer.returncode == USAGE
    assert told in " ".join(answer.stderr.split())
    assert set_in(pair) == [[], []]
