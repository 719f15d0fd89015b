"""An export that is broken off: its line of the audit says how many rows were sent until then."""

from __future__ import annotations

import socket

import pytest

from crew import eventually
from faces.test_http_tokens import NOBODY, made, tenure
from faces.web_tools import served
from tenure import operate
from tenure.verbs import witness
from tenure.web import again
from world import World

pytestmark = pytest.mark.one_server
ROWS = 3000


@pytest.fixture
def many(world: World) -> World:
    """Rows of ten kilobytes: more than the buffers between two sockets hold."""
    fat = "jsonb_build_object('t', repeat(md5(n::text), 300))"
    world.sql(f"INSERT INTO live (kind, payload) SELECT 'k', {fat} FROM generate_series(1, {ROWS}) AS n")
    return world


def read_some(address: str, header: str, lines: int) -> tuple[socket.socket, int]:
    """A client that reads until it has so many lines, and then nothing more; and how many it has."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    client = socket.create_connection((host, int(port)))
    path = "/api/rows/export?reveal=true&filter=queue:default"
    client.sendall(f"GET {path} HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: {header}\r\n\r\n".encode())
    got = b""
    while got.count(b'{"id":') < lines:
        got += client.recv(65536)
    return client, got.count(b'{"id":')


def test_when_the_reader_leaves_the_audit_has_the_rows_that_were_sent(many: World) -> None:
    token = made(many, "leaver", "--reveal")
    with served(many, access=NOBODY) as web:
        client, got = read_some(str(web.base_url), token["authorization"], 500)
        client.close()
        line = eventually(lambda: [each for each in many.run(operate.audit(1)) if each.done_at])[0]
        assert (line.actor, line.verb) == ("token:leaver", "export")
        assert got <= line.rows < ROWS
        eventually(lambda: many.run(witness.audit_chain()).unsealed == 0)


def test_when_the_server_stops_the_audit_has_the_rows_that_were_sent(many: World) -> None:
    token = made(many, "stopped", "--reveal")
    with served(many, access=NOBODY) as web:
        client, got = read_some(str(web.base_url), token["authorization"], 500)
    client.close()
    line = eventually(lambda: [each for each in many.run(operate.audit(1)) if each.done_at])[0]
    assert got <= line.rows < ROWS


def test_when_its_token_is_revoked_an_export_ends_and_its_last_line_says_so(
    many: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(again, "AGAIN_SECONDS", 0.0)
    token = made(many, "revoked", "--reveal", "--queue", "default")
    with served(many, access=NOBODY) as web:
        client, got = read_some(str(web.base_url), token["authorization"], 500)
        tenure(many, "revoke", "revoked")
        rest = b""
        while not rest.endswith(b"0\r\n\r\n"):
            rest += client.recv(65536)
        client.close()
        lines = eventually(
            lambda: [each for each in many.run(operate.audit()) if each.verb == "export" and each.done_at]
        )
    assert b"you are no longer let in: this export is incomplete" in rest[-200:]
    told = got + rest.count(b'{"id":')
    assert told <= lines[0].rows <= told + 1 < ROWS  # one may stand across the two readings
