"""`tenure queues limit --across`: one number for all inboxes, dealt out among them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import click
import pytest

from crew import eventually
from faces.test_inboxes import NOWHERE, document, tenure
from guarantees.facts import Beside
from pairs import Pair, login, read_only
from tenure import postgres
from tenure.cli import across, inbox_told
from tenure.drills.stage.proxy import FaultProxy
from tenure.errors import TRY_LATER, USAGE
from tenure.postgres.patience import Patience
from world import World

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


def untouched(pair: Pair) -> bool:
    """No inbox has a limit, a share or a line in its audit."""
    left = [world.sql(f"SELECT count(*) FROM {table}") for world in pair for table in ("queues", "shares", "audit")]
    return left == [[(0,)]] * 6


@pytest.mark.parametrize("second", [True, False])
def test_an_inbox_that_is_read_only_is_named_and_nothing_is_changed(pair: Pair, second: bool) -> None:
    shut, where = ("us", {"b": read_only(pair.b.url)}) if second else ("eu", {"a": read_only(pair.a.url)})
    limit = ("queues", "limit", "mail", "--max-running", "4", "--across")
    answer = tenure(pair, *limit, **where)
    assert (answer.returncode, answer.stdout) == (TRY_LATER, "")
    assert f"{shut} refuses this: cannot execute INSERT in a read-only transaction" in answer.stderr
    assert "nothing was changed: a limit is dealt when all inboxes take it" in answer.stderr
    assert untouched(pair)
    answer = tenure(pair, *limit, "--json", **where)
    assert answer.returncode == TRY_LATER
    told = {each["inbox"]: each for each in json.loads(answer.stdout)["inboxes"]}
    assert [each["changed"] for each in told.values()] == [False, False]
    assert [inbox for inbox, each in told.items() if "read-only" in each.get("error", "")] == [shut]
    assert untouched(pair)


def test_an_inbox_where_we_may_not_write_is_named_and_nothing_is_changed(pair: Pair) -> None:
    with login(pair.b, "readonly") as url:
        answer = tenure(pair, "queues", "limit", "mail", "--max-running", "4", "--across", b=url)
    assert (answer.returncode, answer.stdout) == (TRY_LATER, "")
    assert "us refuses this: permission denied for " in answer.stderr
    assert untouched(pair)


def test_an_inbox_whose_queue_is_locked_is_named_and_nothing_is_changed(pair: Pair) -> None:
    with postgres.connect(pair.b.url) as conn, conn.transaction():
        conn.execute(b"LOCK TABLE tenure.queues IN ACCESS EXCLUSIVE MODE")
        conn.execute(b"LOCK TABLE tenure.audit IN ACCESS EXCLUSIVE MODE")
        answer = tenure(pair, "queues", "limit", "mail", "--max-running", "4", "--across")
    assert (answer.returncode, answer.stdout) == (TRY_LATER, ""), answer
    assert "us " in answer.stderr
    assert untouched(pair)


def test_if_all_refuse_each_is_named_and_nothing_is_changed(pair: Pair) -> None:
    limit, where = ("queues", "limit", "mail", "--max-running", "4", "--across"), {"a": read_only(pair.a.url)}
    for b, told in ((read_only(pair.b.url), "us refuses this: "), (NOWHERE, "1 of 2 inboxes answer: us says: ")):
        answer = tenure(pair, *limit, "--json", **where, b=b)
        assert answer.returncode == TRY_LATER, answer
        assert told in answer.stderr
        assert "nothing was changed: a limit is dealt when all inboxes take it" in answer.stderr
        each = json.loads(answer.stdout)["inboxes"]
        assert {(one["inbox"], one["changed"]) for one in each} == {("eu", False), ("us", False)}
    answer = tenure(pair, *limit, a=NOWHERE, b=f"{NOWHERE}2")
    assert (answer.returncode, answer.stdout) == (TRY_LATER, "")
    assert "0 of 2 inboxes answer: eu says: " in answer.stderr
    assert untouched(pair)


def test_after_a_limit_of_each_inbox_alone_it_can_be_dealt_again(pair: Pair) -> None:
    across = ("queues", "limit", "mail", "--max-running", "4", "--across")
    for alone in (("--clear",), ("--max-running", "7")):
        assert tenure(pair, *across).returncode == 0
        assert tenure(pair, "queues", "limit", "mail", *alone).returncode == 0
    answer = tenure(pair, *across)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert set_in(pair) == [[(2, None, None)]] * 2


@pytest.mark.parametrize("moment", ["write", "commit"])
def test_an_inbox_that_falls_silent_is_given_up_and_the_others_are_let_go(
    pair: Pair, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = {"silence_seconds": 1, "statement_seconds": 2}
    if moment == "write":  # the time of all is over before that of the one
        monkeypatch.setattr(inbox_told, "ANSWER_SECONDS", 2.0)
        silent = {"statement_seconds": 600}
    monkeypatch.setattr(across, "PATIENCE", Patience(lock_seconds=5, **silent), raising=False)
    given = dict.fromkeys(("max_per_key", "clear", "rate_per_second", "burst", "schema"))
    given |= {"name": "mail", "max_running": 4, "as_json": False, "reason": ""}
    with slow_shares(pair.a, moment), FaultProxy(pair.a.url) as proxy:
        urls = {"eu": proxy.url, "us": pair.b.url}
        dealing = Beside(lambda: across.deal_in_all(urls, given))
        eventually(lambda: dealing.done or pair.a.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))
        proxy.drop_replies()
        with pytest.raises(click.exceptions.Exit) as left:
            dealing.result()
        assert left.value.exit_code == TRY_LATER
        ours = (
            "SELECT 1 FROM pg_stat_activity WHERE application_name = 'tenure queues' AND datname = current_database()"
        )
        eventually(lambda: not pair.b.sql(ours))
    assert set_in(pair)[1] == []


@contextmanager
def slow_shares(world: World, moment: str) -> Iterator[None]:
    """A share takes a second here, when it is written or when it is committed."""
    sleeps = "PERFORM pg_sleep(1); RETURN NULL"
    world.sql(f"CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {sleeps}; END$$")
    at_commit = "DEFERRABLE INITIALLY DEFERRED" if moment == "commit" else ""
    world.sql(
        f"CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON shares {at_commit} FOR EACH ROW EXECUTE FUNCTION public.slow()"
    )
    try:
        yield
    finally:
        world.sql("DROP FUNCTION public.slow() CASCADE")


@pytest.mark.parametrize("as_json", [False, True])
def test_if_one_fails_in_the_middle_what_was_done_is_told_first(pair: Pair, as_json: bool) -> None:
    words = ("queues", "limit", "mail", "--max-running", "4", "--across", *["--json"] * as_json)
    with refusing_commits(pair.b):
        answer = tenure(pair, *words)
    assert answer.returncode == TRY_LATER
    assert "tenure: inbox us: no commits today" in answer.stderr
    assert "the limit is not dealt in all inboxes: run it again" in answer.stderr
    if as_json:
        eu, us = json.loads(answer.stdout)["inboxes"]
        assert (eu["inbox"], eu["changed"], eu["max_running"]) == ("eu", True, 2)
        assert (us["inbox"], "no commits today" in us["error"]) == ("us", True)
    else:
        assert answer.stdout == "eu: mail: 0 of 2 processing\n"
    assert set_in(pair) == [[(2, None, None)], []]
    assert tenure(pair, *words).returncode == 0
    assert set_in(pair) == [[(2, None, None)]] * 2


@contextmanager
def refusing_commits(world: World) -> Iterator[None]:
    """Every write of a share is taken here, and refused when it is committed."""
    raised = "RAISE EXCEPTION 'no commits today' USING ERRCODE = 'read_only_sql_transaction'"
    world.sql(f"CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {raised}; END$$")
    world.sql(
        "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON shares DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION public.refuse()"
    )
    try:
        yield
    finally:
        world.sql("DROP FUNCTION public.refuse() CASCADE")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--max-running", "1"), "--max-running 1 cannot be dealt over 2 inboxes: give 2 or more"),
        (("--rate", "0.5"), "--rate 0.5 alone: its burst cannot be dealt over 2 inboxes: give --burst 2"),
        (("--rate", "5", "--burst", "1"), "--burst 1 cannot be dealt over 2 inboxes: give --burst 2 or more"),
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
