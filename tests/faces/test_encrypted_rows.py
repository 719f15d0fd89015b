"""How an encrypted row is told of: by the name of its key, in commands, over HTTP and by doctor."""

from __future__ import annotations

import json

import pytest

from crew import working
from faces.test_fleet_commands import tenure
from faces.web_tools import served
from tenure import Codec, Inbox
from tenure.doctor import examine
from tenure.events import JobReleased
from world import World

CARD = "4111-1111-1111-1111"
pytestmark = pytest.mark.one_server


def sent(world: World) -> str:
    inbox = Inbox(codec=Codec({"k1": b"1" * 32}))

    @inbox.handler("pay", encrypt=["street"])
    def pay(order: int, street: str) -> None: ...

    pay.schema = world.schema
    return str(pay.enqueue(world.conn, order=7, street=CARD).id)


def test_a_row_is_shown_with_the_name_of_its_key(world: World) -> None:
    id = sent(world)
    assert '{"order": 7, "$encrypted": "encrypted with key k1"}' in tenure(world, "row", id).stdout
    for command in (["row", id, "--json"], ["rows"], ["why", id], ["doctor"]):
        assert CARD not in tenure(world, *command).stdout


def test_the_api_and_its_exports_have_the_name_of_its_key(world: World) -> None:
    id = sent(world)
    with served(world) as web:
        row = web.get(f"/api/rows/{id}").json()["row"]
        assert json.loads(row["payload"]) == {"order": 7, "$encrypted": "encrypted with key k1"}
        assert CARD not in web.get("/api/rows").text
        found = web.get("/api/rows", params={"filter": f'payload.street:"{CARD}"'}).json()["rows"]
        assert found == [], "no filter finds it by its plain text"


def test_what_is_shown_of_it_is_not_taken_for_a_payload(world: World) -> None:
    id = sent(world)
    with served(world) as web:
        shown = web.get(f"/api/rows/{id}").json()["row"]["payload"]
        refused = web.post("/api/rows", json={"kind": "another", "payload": json.loads(shown)})
        assert refused.status_code == 400
        assert "send it from Python, with the codec" in refused.json()["error"]
    assert "send it from Python, with the codec" in tenure(world, "enqueue", "another", shown).stderr
    assert world.sql("SELECT count(*) FROM live") == [(1,)]


def test_doctor_and_why_name_the_key_that_is_missing(world: World) -> None:
    id = sent(world)
    found = {each.check: each for each in examine(world.url, world.schema, {})}["encryption"]
    assert (found.level, found.said) == ("ok", "no row waits for an encryption key")
    other = Inbox(codec=Codec({"k2": b"2" * 32}))

    @other.handler("pay")
    def pay(order: int, street: str) -> None: ...

    with working(world, other) as hired:
        hired.saw(JobReleased)
        found = {each.check: each for each in examine(world.url, world.schema, {})}["encryption"]
        said = tenure(world, "why", id).stdout
    reason = "encrypted with key 'k1', which this worker does not have"
    assert (found.level, found.said) == ("fault", f"1 row waits for an encryption key: {reason}")
    assert f"a worker gave it back ({reason}): give its workers that key" in said
    assert found.next == "give the key to the workers, then `tenure retry 'error:\"encrypted with key\"'`"
    assert tenure(world, "retry", 'error:"encrypted with key"', "--yes").stdout.count("1 row changed") == 1
