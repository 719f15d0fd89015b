"""Drills are for this machine: who is near is told by address, name and way; and what a server must leave is told."""

from __future__ import annotations

import socket

import httpx
import psycopg
import pytest
from psycopg import sql

from faces.web_tools import TOKEN, served
from tenure.drills import host as hosting
from tenure.drills.host import Hosts
from tenure.drills.plan import Plan
from world import World

pytestmark = pytest.mark.one_server


def status(web: httpx.Client, line: str, *headers: str) -> int:
    """How a request of just these words is answered."""
    words = [
        line,
        *headers,
        f"authorization: Bearer {TOKEN}",
        "x-tenure: 1",
        "content-type: application/json",
        "content-length: 2",
        "connection: close",
        "",
        "{}",
    ]
    with socket.create_connection(("127.0.0.1", web.base_url.port or 0)) as plain:
        plain.sendall("\r\n".join(words).encode())
        return int(plain.recv(100).split()[1])


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "192.0.2.7", ""]
)
def test_a_name_that_another_site_points_here_opens_no_stage_though_a_token_is_shown(world: World, host: str) -> None:
    with served(world, drills=True) as web:
        assert status(web, "GET /api/me HTTP/1.1", f"host: {host}") == 200, "the token lets in under any name"
        assert status(web, "GET /api/drills HTTP/1.1", f"host: {host}") == 403
        assert status(web, "POST /api/stage HTTP/1.1", f"host: {host}") == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:7117", "[::1]:7117", "LOCALHOST:80"])
def test_this_machine_by_its_own_names_is_near(world: World, host: str) -> None:
    with served(world, drills=True) as web:
        assert status(web, "GET /api/drills HTTP/1.1", f"host: {host}") == 200


def test_a_proxy_that_says_nothing_is_not_near(world: World) -> None:
    with served(world, drills=True) as web:
        assert status(web, "GET /api/me HTTP/1.0", "host: localhost") == 200
        assert status(web, "GET /api/drills HTTP/1.0", "host: localhost") == 403
        assert status(web, "POST /api/stage HTTP/1.0", "host: localhost") == 403


def test_a_schema_that_a_server_must_leave_behind_is_named_once(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hosting, "LAST_SECONDS_MAX", 0.5)
    hosts = Hosts(world.url)
    host = hosts.open(Plan())
    host.begun.result(90)
    with psycopg.connect(world.url) as conn:
        conn.execute(sql.SQL("LOCK TABLE {}.live").format(sql.Identifier(host.schema)))
        hosts.end()
        hosts.end()
        assert [host.schema in record.getMessage() for record in caplog.records] == [True]
    assert host.join(90)
    caplog.clear()
    monkeypatch.setattr(hosting, "LAST_SECONDS_MAX", 30.0)
    others = Hosts(world.url)
    others.open(Plan()).begun.result(90)
    others.end()
    assert not caplog.records
