"""Tokens of `tenure tokens`: shown once, hashed, scoped, expiring, named in the audit, and ended at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.requests import Request

from crew import eventually
from faces.web_tools import CHANGING, said, served
from tenure import operate, verbs
from tenure.cli.tokens import command
from tenure.events import LoginFailed
from tenure.model.rows import NewRow
from tenure.model.web_token import PREFIX
from tenure.verbs import witness
from tenure.web import Access
from tenure.web.access import PUBLIC
from tenure.web.credentials import credentials
from tenure.web.routes import ROUTES
from tenure.web.witness import FAILED_MAX
from world import World

pytestmark = pytest.mark.one_server
NOBODY = credentials("nobody-has-this-one", None, None)


def tenure(world: World, *words: str, code: int = 0) -> str:
    place = ["--database-url", world.url, "--schema", world.schema]
    ran = CliRunner().invoke(command, [*words, *place])
    assert ran.exit_code == code, (ran.output, ran.exception)
    return ran.stdout


def made(world: World, *words: str) -> dict[str, str]:
    token = json.loads(tenure(world, "create", *words, "--json"))["token"]
    return {**CHANGING, "authorization": f"Bearer {token}"}


def test_a_token_is_shown_once_and_only_its_hash_is_kept(world: World) -> None:
    token = tenure(world, "create", "ci", "--expires", "1h").strip().splitlines()[-1]
    assert token.startswith(PREFIX)
    secret = token.rpartition("_")[2]
    kept = str(world.sql("SELECT t::text, encode(t.hash, 'escape') FROM tokens AS t")) + str(world.sql("TABLE audit"))
    assert secret not in kept
    assert secret not in tenure(world, "list") + tenure(world, "--json")
    (line,) = json.loads(tenure(world, "--json"))["tokens"]
    assert (line["name"], line["role"], line["queues"], line["status"]) == ("ci", "read", None, "valid")


def test_a_token_lets_in_by_its_role_and_is_named_in_the_audit(world: World) -> None:
    ci, grafana = made(world, "ci", "--role", "operate"), made(world, "grafana")
    with served(world, access=NOBODY) as client:
        assert said(client.post("/api/queues/mail/pause", headers=ci))["changed"]
        assert "has read" in said(client.post("/api/queues/mail/pause", headers=grafana), 403)["error"]
        assert said(client.get("/api/me", headers=grafana))["actor"] == "token:grafana"
        assert client.get("/api/me").status_code == 401
    assert [(each.actor, each.verb) for each in world.run(operate.audit(1))] == [("token:ci", "pause")]
    used = {each["name"]: each["last_used_at"] for each in json.loads(tenure(world, "--json"))["tokens"]}
    assert used["ci"]
    assert used["grafana"]


def test_a_revoked_and_an_expired_token_end_at_once_and_a_wrong_one_never_began(world: World) -> None:
    ci, old = made(world, "ci"), made(world, "old")
    with served(world, access=NOBODY) as client:
        assert client.get("/api/me", headers=ci).status_code == 200
        assert client.get("/api/me", headers=old).status_code == 200
        tenure(world, "revoke", "ci")
        assert "was revoked" in said(client.get("/api/me", headers=ci), 401)["error"]
        world.sql("UPDATE tokens SET expires_at = clock_timestamp() WHERE name = 'old'")
        assert "has expired" in said(client.get("/api/me", headers=old), 401)["error"]
        for wrong in (ci["authorization"][:-1] + "x", f"Bearer {PREFIX}", f"Bearer {PREFIX}000000000000_{'A' * 43}"):
            assert "unknown" in said(client.get("/api/me", headers={"authorization": wrong}), 401)["error"]
    assert "was revoked already" in tenure(world, "revoke", "ci")
    assert [each.verb for each in world.run(operate.audit()) if "token" in each.verb].count("revoke_token") == 2


def test_a_token_for_a_queue_sees_and_changes_only_that_queue(world: World) -> None:
    mine = world.run(verbs.enqueue(NewRow("k", queue="mail"))).id
    other = world.run(verbs.enqueue(NewRow("k", queue="bills"))).id
    ci = made(world, "ci", "--role", "admin", "--queue", "mail", "--queue", "sms")
    with served(world, access=NOBODY) as client:
        client.headers.update(ci)
        assert said(client.get("/api/me"))["queues"] == ["mail", "sms"]
        assert [each["queue"] for each in said(client.get("/api/queues"))["queues"]] == ["mail"]
        assert said(client.get("/api/rows", params={"filter": "queue:mail"}))["rows"][0]["id"] == str(mine)
        assert client.get(f"/api/rows/{mine}").status_code == 200
        assert client.get(f"/api/rows/{other}").status_code == 404
        for words in ("", "queue:bills", "queue:*", "queue:m*", f"id:{other}", "kind:k"):
            for path in ("/api/rows", "/api/rows/count", "/api/rows/statuses", "/api/rows/export"):
                assert client.get(path, params={"filter": words}).status_code == 403, (path, words)
            act = {"verb": "delete", "filter": words}
            assert client.post("/api/actions", json=act).status_code == 403, words
        assert client.post("/api/rows", json={"kind": "k", "queue": "mail"}).status_code == 201
        for refused in (
            client.post("/api/rows", json={"kind": "k"}),
            client.post("/api/queues/bills/pause"),
            client.put("/api/queues/bills/limits", json={}),
        ):
            assert "is for the queues mail, sms" in said(refused, 403)["error"]
        done = said(client.post("/api/actions", json={"verb": "delete", "filter": "queue:mail"}))
        assert done["matched"] == 2


def test_every_other_route_is_closed_to_a_token_for_a_queue(world: World) -> None:
    ci = made(world, "ci", "--role", "admin", "--queue", "mail")
    with served(world, access=NOBODY) as client:
        open_to_it = set()
        for route in ROUTES:
            if route.verb == PUBLIC or route.by_queue:
                continue
            path = route.path.replace("{name:text}", "x").replace("{id}", "x").replace("{action}", "1")
            answer = client.request(route.method, path.replace("{", "").replace("}", ""), headers=ci, json={})
            if answer.status_code != 403 or "every queue" not in answer.text:
                open_to_it.add((route.method, route.path, answer.status_code))
        assert not open_to_it
        scoped = {route.path for route in ROUTES if route.by_queue}
    assert scoped == {
        "/api/me", "/api/rows", "/api/rows/{id}", "/api/rows/{id}/family", "/api/rows/{id}/reveal", "/api/rows/count",
        "/api/rows/statuses", "/api/rows/export", "/api/actions", "/api/queues", "/api/queues/{name:text}/pause",
        "/api/queues/{name:text}/resume", "/api/queues/{name:text}/limits",
        "/api/queues/{name:text}/retention",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("create", "ci"), 78, "never given twice"),
        (("create", "x", "--expires", "never"), 2, "must be a span of time"),
        (("create", "x", "--expires", "0d"), 2, "must be above 0s"),
        (("create", "x", "--role", "root"), 2, "root"),
        (("create", "x", "--queue", ""), 2, "queue"),
        (("revoke", "nobody"), 1, "there is no token"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_sentence(
    world: World, words: tuple[str, ...], code: int, why: str
) -> None:
    tenure(world, "create", "ci")
    place = ["--database-url", world.url, "--schema", world.schema]
    ran = CliRunner().invoke(command, [*words, *place])
    assert why in ran.output + str(ran.exception)
    assert getattr(ran.exception, "exit_code", ran.exit_code) == code
    assert len(world.sql("TABLE tokens")) == 1


def test_wrong_tokens_are_told_seldom(world: World) -> None:
    with served(world, access=NOBODY) as client:
        for n in range(30):
            wrong = {"authorization": f"Bearer {PREFIX}{n:012x}_{'A' * 43}"}
            assert client.get("/api/me", headers=wrong).status_code == 401
        lines = eventually(lambda: found if len(found := world.run(operate.audit())) == 2 else [])
    assert [(each.actor, each.verb, each.reason) for each in lines] == [
        ("nobody", "login_failed", "10 wrong logins"),
        ("nobody", "login_failed", "a wrong login"),
    ]


# -- the right to see payloads


def row_with_payload(world: World) -> Any:
    return world.run(
        verbs.enqueue(NewRow("k", {"order": "4711-canary", "password": "hush"}, headers={"h": "canary"}))
    ).id


def test_without_the_right_no_door_shows_a_payload_and_with_it_each_look_is_audited(world: World) -> None:
    id = row_with_payload(world)
    blind, seeing = made(world, "blind", "--role", "admin"), made(world, "seeing", "--reveal")
    with served(world, access=NOBODY) as client:
        for headers in (blind, seeing):
            for path in (f"/api/rows/{id}", "/api/rows", "/api/rows/export", "/api/rows/export?format=csv"):
                assert "canary" not in client.get(path, headers=headers).text, path
            guess = client.get("/api/rows", params={"filter": "payload.order:4711-canary"}, headers=headers)
            assert guess.status_code == 403
        assert "no right to see payloads" in said(client.post(f"/api/rows/{id}/reveal", headers=blind), 403)["error"]
        assert client.get("/api/rows/export?reveal=true", headers=blind).status_code == 403
        assert (said(client.get("/api/me", headers=blind))["reveal"], world.count("audit")) == (False, 6)
        shown = said(client.post(f"/api/rows/{id}/reveal", headers=seeing))
        assert "4711-canary" in shown["payload"]
        assert "canary" in shown["headers"]
        assert "hush" not in shown["payload"]
        assert "4711-canary" in client.get("/api/rows/export?reveal=true", headers=seeing).text
    lines = [each[3:9] for each in world.run(operate.audit(2))]
    assert lines == [
        ("token:seeing", "http", "export", "", "jsonl, with payloads", 1),
        ("token:seeing", "http", "reveal", str(id), "", 1),
    ]


def test_an_export_is_a_line_of_the_audit_and_hides_the_values_of_its_filter(world: World) -> None:
    row_with_payload(world)
    with served(world) as client:
        assert "4711-canary" in client.get("/api/rows/export?filter=kind:k").text
        assert client.head("/api/rows/export").status_code == 200
        (line,) = said(client.get("/api/audit"))["audit"]
    assert (line["actor"], line["verb"], line["target"], line["rows"]) == ("local", "export", "kind:k", 1)
    assert line["reason"] == "jsonl, with payloads"


def test_where_one_entry_of_the_settings_has_the_right_the_others_do_not_see_payloads(world: World) -> None:
    id = row_with_payload(world)
    door = credentials(None, "ann:read+reveal:ann-has-this,bob:admin:bob-has-this", None)
    with served(world, access=door) as client:
        ann, bob = ({**CHANGING, "authorization": f"Bearer {name}-has-this"} for name in ("ann", "bob"))
        assert "canary" not in client.get(f"/api/rows/{id}", headers=ann).text
        assert "canary" not in client.get(f"/api/rows/{id}", headers=bob).text
        assert "canary" in client.post(f"/api/rows/{id}/reveal", headers=ann).text
        assert client.post(f"/api/rows/{id}/reveal", headers=bob).status_code == 403


def test_an_app_gives_the_right_too_and_hide_payloads_goes_for_whoever_has_none(world: World) -> None:
    id = row_with_payload(world)
    for right, hide, at_once, by_reveal in (
        (None, False, True, 403), (None, True, False, 403), (True, True, False, 200), (False, False, False, 403),
    ):  # fmt: skip
        with served(world, access=lambda _, right=right: Access("ann", "admin", right), hide_payloads=hide) as client:
            assert ("canary" in client.get(f"/api/rows/{id}").text) == at_once, (right, hide)
            assert client.post(f"/api/rows/{id}/reveal").status_code == by_reveal, (right, hide)


def test_failed_logins_from_a_thousand_addresses_do_not_fill_the_audit(world: World) -> None:
    def guessed(request: Request) -> None:
        for n in range(1000):
            request.app.state.site.bus.emit(LoginFailed(f"10.0.{n // 256}.{n % 256}", "root", 1))

    with served(world, access=guessed) as client:
        assert client.get("/api/me").status_code == 401
        assert client.get("/api/me").status_code == 401
        eventually(lambda: world.count("audit") == FAILED_MAX)
        eventually(lambda: world.run(witness.audit_chain()).unsealed == 0)  # and all of them are linked
    assert world.count("audit") == FAILED_MAX
