"""Two addresses of one database are not two inboxes: refused at the start, and when a node joins."""

from __future__ import annotations

from urllib.parse import quote, urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from crew import Hired, eventually
from faces.test_inboxes import document, tenure
from pairs import Pair, ready, serving
from tenure.app.inbox import Inbox
from tenure.drills.stage.proxy import FaultProxy
from tenure.errors import BAD_SETTINGS, NO, BadSettings
from tenure.events import DatabaseUnreachable
from tenure.verbs.questions import place
from tenure.worker.config import Terms
from tenure.worker.places import Places
from tenure.worker.worker import Worker

pytestmark = pytest.mark.one_server

ONE = "inboxes 'a' and 'b' are one database by two addresses: give each one of its own"


def greeting() -> Inbox:
    """An inbox with a handler."""
    inbox = Inbox()

    @inbox.handler("greet")
    def greet() -> None: ...

    return inbox


def test_a_worker_is_refused_one_database_by_two_addresses(pair: Pair) -> None:
    with FaultProxy(pair.a.url) as proxy:
        worker = Worker(greeting(), Terms(shards={"a": pair.a.url, "b": proxy.url}))
        with pytest.raises(BadSettings) as refusal:
            worker.run()
    assert str(refusal.value) == ONE
    assert pair.a.count("workers") == 0


def test_control_without_the_check_it_would_work_there_twice(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Places, "check", lambda *_: None)
    with FaultProxy(pair.a.url) as proxy, serving(pair, greeting(), urls={"b": proxy.url}):
        eventually(lambda: pair.a.count("workers") == 2)


def test_two_databases_of_one_server_are_two_inboxes_also_if_one_is_a_copy(pair: Pair) -> None:
    assert len({world.run(place()) for world in pair}) == 2


def test_one_that_was_away_at_the_start_is_not_served_if_it_is_another_one(pair: Pair) -> None:
    with FaultProxy(pair.a.url) as proxy:
        proxy.refuse()
        with serving(pair, greeting(), urls={"b": proxy.url}) as hired:
            hired.saw(DatabaseUnreachable)
            proxy.heal()
            eventually(lambda: ONE in {event.error for event in hired.of(DatabaseUnreachable)})
            assert not ready(hired.worker.posts[1])
            assert pair.a.count("workers") == 1


def test_a_node_that_joins_is_not_served_if_it_is_another_one(pair: Pair) -> None:
    with FaultProxy(pair.a.url) as proxy, serving(pair, greeting()) as hired:
        eventually(lambda: all(map(ready, hired.worker.posts)))
        for _ in range(2):
            with pytest.raises(BadSettings, match="inboxes 'a' and 'c' are one database"):
                hired.worker._attend("c", proxy.url)
        assert len(told_of(hired, "@c")) == 1, "it is told once"
        assert [post.terms.inbox for post in hired.worker.posts] == ["a", "b"]


def told_of(hired: Hired, inbox: str) -> list[DatabaseUnreachable]:
    """What was said about one inbox that cannot be served."""
    return [event for event in hired.of(DatabaseUnreachable) if event.worker.endswith(inbox)]


def as_url(words: str) -> str:
    """An address of libpq's as a URL."""
    found = {name: str(word) for name, word in conninfo_to_dict(words).items()}
    return f"postgresql:///?{urlencode(found, quote_via=quote)}"


EU_AND_US = "tenure: inboxes 'eu' and 'us' are one database by two addresses: give each one of its own"


@pytest.mark.parametrize(
    "command",
    [
        ("serve", "--port", "0"),
        ("queues", "limit", "mail", "--max-running", "4", "--across"),
        ("queues", "pause", "mail"),
        ("redrive", "status:dead_letter", "--yes"),
    ],
)
def test_a_server_of_pages_and_an_act_are_refused_it_too(pair: Pair, command: tuple[str, ...]) -> None:
    with FaultProxy(pair.a.url) as proxy:
        answer = tenure(pair, *command, b=as_url(proxy.url))
    assert answer.returncode == BAD_SETTINGS
    assert " ".join(answer.stderr.split()) == EU_AND_US
    assert (pair.a.count("queues"), pair.a.count("audit")) == (0, 0)


def test_who_reads_is_told_it(pair: Pair) -> None:
    with FaultProxy(pair.a.url) as proxy:
        answer = tenure(pair, "queues", b=as_url(proxy.url))
    assert answer.returncode == 0
    assert EU_AND_US in " ".join(answer.stderr.split())
    assert "one database" not in tenure(pair, "queues").stderr


def test_doctor_finds_it_and_says_no(pair: Pair) -> None:
    with FaultProxy(pair.a.url) as proxy:
        found = document(pair, "doctor", code=NO, b=as_url(proxy.url))
        one = tenure(pair, "doctor", "--inbox", "eu", b=as_url(proxy.url))
    faults = {(each["inbox"], each["check"], each["said"]) for each in found["findings"] if each["level"] == "fault"}
    told = EU_AND_US.removeprefix("tenure: ")
    assert faults == {("eu", "inboxes", told), ("us", "inboxes", told)}
    assert (one.returncode, told in " ".join(one.stdout.split())) == (NO, True)
    well = [each["level"] for each in document(pair, "doctor")["findings"] if each["check"] == "inboxes"]
    assert well == ["ok", "ok"]


@pytest.mark.parametrize("command", [["rows"], ["queues", "pause", "mail"]])
def test_a_schema_that_is_no_name_is_refused_once(pair: Pair, command: list[str]) -> None:
    answer = tenure(pair, *command, "--schema", "no name")
    assert answer.returncode == BAD_SETTINGS
    assert answer.stderr.count("no name") == 1
