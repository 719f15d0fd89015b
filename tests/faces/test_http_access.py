"""Access over HTTP: who may come in, which role may do what, and that no route is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import httpx
import pytest
from starlette.requests import Request

import tenure.web
from faces.web_tools import served
from tenure.console.loopback import is_loopback
from tenure.errors import BadSettings
from tenure.verbs import fleet, schedules
from tenure.verbs.endpoints import add_endpoint
from tenure.verbs.projections import plan_projection
from tenure.web.access import PUBLIC, VERBS, Access
from tenure.web.credentials import Credentials, credentials
from tenure.web.route import Route
from tenure.web.routes import ROUTES
from world import World

pytestmark = pytest.mark.one_server

READ, OPERATE, ADMIN = "read-read-read", "operate-operate", "admin-admin-admin"
LISTED = f"ann:read:{READ},bob:operate:{OPERATE},eve:admin:{ADMIN}"
BODIES: dict[str, Any] = {
    "POST /api/rows": {"kind": "k"},
    "POST /api/actions": {"verb": "cancel", "filter": "kind:other", "dry_run": False, "expect": 9},
    "PUT /api/queues/{name:text}/limits": {"max_running": 1},
    "PUT /api/queues/{name:text}/retention": {"retention_seconds": 86_400},
    "POST /api/blocked/free": {"queue": "default", "key": "order:1"},
    "POST /api/blocked/postpone": {"queue": "default", "key": "order:1", "seconds": 60},
    "POST /api/flows/{id}/signal": {"name": "paid"},
    "POST /api/flows/{id}/cancel": {"reason": "no stock"},
    "POST /api/hooks/{id}/resend": {"webhooks": [str(UUID(int=7))]},
}
NAMES = {"queues": "default", "workers": "W1", "schedules": "nightly", "projections": "totals", "skip": "stuck"}
OPEN_CHANGES = {"POST /api/login", "POST /api/logout"}  # change nothing but the cookie of whoever asks
UNCHANGING = OPEN_CHANGES | {"POST /api/rows/{id}/reveal"}  # it adds a line to the audit, and needs a right of its own


def door() -> Credentials:
    """Three tokens and a user."""
    found = credentials(None, LISTED, "kim:operate:kim-kim-kim")
    assert found is not None
    return found


def bearer(token: str) -> dict[str, str]:
    """The header that shows a token."""
    return {"authorization": f"Bearer {token}"}


def ask(web: httpx.Client, route: Route, id: UUID, headers: dict[str, str]) -> httpx.Response:
    """A request that the route would take from somebody who may."""
    noun = route.path.removeprefix("/api").split("/")[1]
    name = NAMES.get(route.path.rpartition("/")[2]) or NAMES.get(noun, "")
    path = route.path.replace("{name:text}", name).replace("{id}", str(id)).replace("{action}", "1")
    body = BODIES.get(f"{route.method} {route.path}")
    return web.request(route.method, path, json=body, headers=headers)


def everything(world: World) -> list[tuple[Any, ...]]:
    """Every row of every table that a change could touch."""
    rows = ("live", "dead", "archive", "queues", "workers", "schedules", "heads", "audit", "permits", "idempotency")
    tables = (*rows, "checkpoints", "steps", "signals", "endpoints", "webhooks")
    found = [row for table in tables for row in sorted(world.sql(f"SELECT {table}::text FROM {table}"))]
    return [row for row in found if "login_failed" not in row[0]]


@pytest.fixture
def furnished(world: World) -> World:
    """A world with something for every change to change."""
    world.enqueue(key="order:1", ordered=True, hold=True)
    (job,) = world.claim_ordered()
    world.fail(job.lease)
    world.enqueue(headers={"tenure-flow": "checkout", "tenure-version": "1"})
    world.run(fleet.register("W1"))
    world.run(schedules.plan(schedules.Schedule("nightly", "30 2 * * *", "report")))
    for name in ("totals", "stuck"):
        world.run(plan_projection(name, shards=1, like=None))
    world.sql("UPDATE checkpoints SET state = 'stopped', stopped_at = 1, error = 'e' WHERE projection = 'stuck'")
    (id,) = world.sql("SELECT id FROM live")[0]  # routes are asked by one id: the endpoint bears that of the row
    world.run(add_endpoint(id, "acme", "https://acme.example/hook", ["*"], "whsec_x"))
    world.sql("INSERT INTO webhooks (id, tenant, kind, body) VALUES (%s, 'acme', 'order.paid', '{}')", UUID(int=7))
    return world


def changes() -> Iterator[Route]:
    """Every route that changes something."""
    return (route for route in ROUTES if route.changes and f"{route.method} {route.path}" not in UNCHANGING)


# -- every route


def test_every_route_of_the_app_is_in_the_table_and_every_change_needs_more_than_read() -> None:
    app = tenure.web.app(database_url="postgresql://nobody@127.0.0.1/x", access=tenure.web.local)
    known = {(route.method, route.path) for route in ROUTES}
    served_by_app = {
        (method, route.path)  # type: ignore[attr-defined]
        for route in app.routes
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
    }
    pages = {(method, path) for method, path in served_by_app - known}
    assert known <= served_by_app
    assert all(method == "GET" for method, _ in pages), "a change outside the table has no role"
    assert not [path for _, path in pages if path.startswith(("/api", "/metrics"))]
    for route in changes():
        assert VERBS[route.verb] in ("operate", "admin"), route.path
    public = {f"{route.method} {route.path}" for route in ROUTES if route.verb == PUBLIC}
    probes = {"GET /health", "GET /health/live", "GET /health/ready"}
    assert public == {*probes, "GET /api/openapi.json", *OPEN_CHANGES}


def test_a_route_without_a_verb_of_the_table_cannot_be_made() -> None:
    async def anything(_ask: Any) -> None: ...

    with pytest.raises(ValueError, match="no role"):
        Route("POST", "/api/anything", "anything", anything, {200: None})


def test_with_a_read_only_token_every_change_is_refused_and_no_row_is_touched(furnished: World) -> None:
    (id,) = furnished.sql("SELECT id FROM live")[0]
    before = everything(furnished)
    with served(furnished, access=door()) as web:
        answers = {f"{each.method} {each.path}": ask(web, each, id, bearer(READ)) for each in changes()}
        assert len(answers) == 23
        assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(answers, 403)
    assert everything(furnished) == before


def test_without_a_token_nothing_but_probes_and_pages_is_answered(furnished: World) -> None:
    (id,) = furnished.sql("SELECT id FROM live")[0]
    before = everything(furnished)
    with served(furnished, access=door()) as web:
        for route in ROUTES:
            if route.verb != PUBLIC:
                for headers in (
                    {},
                    bearer("nobody's"),
                    {"authorization": "Basic !"},
                    {"cookie": "tenure=9999999999.aa"},
                ):
                    assert ask(web, route, id, headers).status_code == 401, route.path
        assert web.get("/health/live").status_code == 200
        assert web.get("/").status_code == 200
    assert everything(furnished) == before


def test_with_the_right_role_the_same_requests_are_let_in(furnished: World) -> None:
    """The negative control: what was refused above was refused for the role alone."""
    (id,) = furnished.sql("SELECT id FROM live")[0]
    with served(furnished, access=door()) as web:
        for route in changes():
            token = OPERATE if VERBS[route.verb] == "operate" else ADMIN
            assert ask(web, route, id, bearer(token)).status_code in (200, 201), route.path


def test_delete_needs_admin_though_its_route_is_the_operators(world: World) -> None:
    world.enqueue()
    with served(world, access=door()) as web:
        asked = {"verb": "delete", "filter": "kind:send_receipt", "dry_run": False, "expect": 1}
        assert web.post("/api/actions", json=asked, headers=bearer(OPERATE)).status_code == 403
        assert web.post("/api/actions", json={**asked, "dry_run": True}, headers=bearer(OPERATE)).status_code == 403
        assert world.count("live") == 1
        assert web.post("/api/actions", json=asked, headers=bearer(ADMIN)).status_code == 200
        me = web.get("/api/me", headers=bearer(OPERATE)).json()
        assert (me["actor"], me["role"], "delete" in me["verbs"], "redrive" in me["verbs"]) == (
            "bob",
            "operate",
            False,
            True,
        )
    assert world.count("live") == 0


def test_read_only_takes_every_role_down_to_read(world: World) -> None:
    with served(world, read_only=True) as web:
        assert web.get("/api/me").json()["role"] == "read"
        assert web.post("/api/rows", json={"kind": "k"}).status_code == 403


def test_who_changed_something_is_named_in_the_audit(world: World) -> None:
    with served(world, access=door()) as web:
        web.post("/api/queues/default/pause", headers=bearer(OPERATE))
        web.post("/api/queues/default/resume", auth=("kim", "kim-kim-kim"))
        lines = web.get("/api/audit", headers=bearer(READ)).json()["audit"]
    assert [(line["actor"], line["verb"], line["via"]) for line in lines] == [
        ("kim", "resume", "http"),
        ("bob", "pause", "http"),
    ]


# -- the ways in


def test_a_token_buys_a_cookie_that_no_script_reads_and_no_other_site_sends(world: World) -> None:
    with served(world, prefix="/ops", access=door()) as web:
        answer = web.post("/api/login", json={"token": OPERATE})
        cookie = answer.headers["set-cookie"].lower()
        assert answer.status_code == 204
        assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/ops"))
        assert OPERATE not in cookie
        assert web.get("/api/me").json()["actor"] == "bob"
        assert web.post("/api/queues/default/pause").status_code == 200
        assert web.post("/api/logout").status_code == 204
        assert web.get("/api/me").status_code == 401
        assert web.post("/api/login", json={"token": "wrong-wrong"}).status_code == 401
        assert web.post("/api/login", json={"name": "kim", "token": "kim-kim-kim"}).status_code == 204
        assert web.get("/api/me").json()["actor"] == "kim"


def test_an_app_it_is_mounted_in_says_who_asks(world: World) -> None:
    async def who(request: Request) -> Access | None:
        name = request.headers.get("x-user")
        return Access(name, "operate" if name == "bob" else "read") if name else None

    with served(world, access=who) as web:
        assert web.get("/api/me").status_code == 401
        assert web.get("/api/me", headers={"x-user": "ann"}).json()["role"] == "read"
        assert web.post("/api/queues/q/pause", headers={"x-user": "ann"}).status_code == 403
        assert web.post("/api/queues/q/pause", headers={"x-user": "bob"}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:7117"}, 200),
        ({"host": "127.0.0.1"}, 200),
        ({"host": "[::1]:7117"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "localhost.evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example:80"}, 403),
        ({"x-forwarded-for": "203.0.113.9"}, 403),
    ],
)
def test_open_on_loopback_is_open_to_this_machines_own_names_only(
    world: World, headers: dict[str, str], status: int
) -> None:
    with served(world) as web:
        assert web.get("/api/me", headers=headers).status_code == status


def test_addresses_that_only_this_machine_reaches() -> None:
    assert [host for host in ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost") if not is_loopback(host)] == []
    assert [host for host in ("0.0.0.0", "::", "10.0.0.1", "example.com", "") if is_loopback(host)] == []


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ("ann:read", "entry 1"),
        ("ann:king:12345678", "'king'"),
        ("ok:read:12345678,ann:read:short", "must have 8 characters"),
    ],
)
def test_credentials_that_cannot_be_are_refused_without_a_word_of_the_secret(tokens: str, words: str) -> None:
    with pytest.raises(BadSettings, match=words) as refused:
        credentials(None, tokens, None)
    assert "12345678" not in str(refused.value)
    assert "short:" not in str(refused.value)
