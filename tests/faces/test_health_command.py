"""`tenure health`: for exec probes; 0 it is, 1 it is not, 69 nobody answers; of a worker or of a server."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import warm
from crew import working
from tenure.app.inbox import Inbox
from tenure.errors import BAD_SETTINGS, NO, UNREACHABLE, USAGE
from tenure.worker.health import Health
from world import World


def health(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return warm.run("health", *arguments, env={**os.environ, **env})


@contextmanager
def answering(pages: dict[str, tuple[int, str]]) -> Iterator[int]:
    """A server that has these pages and no others; its port."""

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = pages.get(self.path, (404, '{"error": "no such page"}'))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


@pytest.mark.one_server
def test_a_real_worker_is_live_and_ready_and_not_ready_once_it_drains(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("k")
    async def handle() -> None: ...

    with working(world, inbox) as hired, Health(hired.worker, "127.0.0.1", 0) as page:
        url = f"http://127.0.0.1:{page.port}"
        page._started = True  # it was in the ring before this page was opened
        assert (health("--url", url).returncode, health("--url", url).stdout) == (0, "live\n")
        assert (health("ready", "--url", url).returncode, health("ready", "--url", url).stdout) == (0, "ready\n")
        hired.stop()
        answer = health("ready", "--url", url)
        assert (answer.returncode, answer.stdout) == (NO, "")
        assert answer.stderr.startswith("tenure: not ready: ")
        assert "drains" in answer.stderr


@pytest.mark.parametrize("prefix", ["", "/tenure"])
def test_a_server_is_understood_too_also_under_a_prefix(prefix: str) -> None:
    pages = {
        f"{prefix}/health/live": (200, '{"status": "live"}'),
        f"{prefix}/health/ready": (503, '{"status": "schema"}'),
    }
    with answering(pages) as port:
        assert health("live", "--url", f"http://127.0.0.1:{port}{prefix}/").returncode == 0
        answer = health("ready", "--url", f"127.0.0.1:{port}{prefix}")
        assert (answer.returncode, answer.stderr) == (NO, "tenure: not ready: schema\n")


def test_by_default_the_workers_own_port_is_asked() -> None:
    with answering({"/livez": (200, '{"ok": true}')}) as port:
        assert health(TENURE_HEALTH_PORT=str(port)).stdout == "live\n"
        assert health(TENURE_HEALTH_PORT=str(port), TENURE_HEALTH_HOST="0.0.0.0").stdout == "live\n"
    answer = health()  # nothing runs on 8901 here, or a worker of somebody's does
    assert answer.returncode in (0, UNREACHABLE)
    assert "8901" in answer.stderr or answer.returncode == 0


def test_no_proxy_is_asked_whatever_the_environment_says() -> None:
    with answering({"/livez": (200, "{}")}) as port:
        proxied = {
            "http_proxy": "http://127.0.0.1:1",
            "HTTP_PROXY": "http://127.0.0.1:1",
            "all_proxy": "http://127.0.0.1:1",
        }
        assert health("--url", f"http://127.0.0.1:{port}", **proxied).returncode == 0


def test_nobody_there_is_another_answer_than_no() -> None:
    answer = health("--url", "http://127.0.0.1:1")
    assert answer.returncode == UNREACHABLE
    assert "nobody answers at http://127.0.0.1:1" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_somebody_who_does_not_answer_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answer = health("--url", f"http://127.0.0.1:{silent.getsockname()[1]}", "--timeout-seconds", "0.3")
    assert answer.returncode == UNREACHABLE
    assert "is there but did not answer within 0.3 s" in answer.stderr


def test_somebody_who_speaks_no_http_is_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as odd:

        def babble() -> None:
            client, _ = odd.accept()
            client.recv(1000)
            client.sendall(b"SSH-2.0-babble\r\n")
            client.close()

        threading.Thread(target=babble, daemon=True).start()
        answer = health("--url", f"http://127.0.0.1:{odd.getsockname()[1]}")
    assert answer.returncode == UNREACHABLE
    assert "Traceback" not in answer.stderr


def test_a_page_that_is_somebody_elses_is_no_answer() -> None:
    with answering({}) as port:
        answer = health("--url", f"http://127.0.0.1:{port}")
    assert answer.returncode == UNREACHABLE
    assert "is it a Tenure worker or server?" in answer.stderr


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "http://", "http://127.0.0.1:port", "file:///etc/passwd"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    answer = health("--url", url)
    assert answer.returncode in (USAGE, UNREACHABLE)
    assert "Traceback" not in answer.stderr


def test_bad_settings_are_bad_settings() -> None:
    assert health(TENURE_HEALTH_PORT="eighty").returncode == BAD_SETTINGS


def test_for_programs_it_is_one_document() -> None:
    with answering({"/readyz": (503, '{"ok": false, "reasons": ["it drains"]}')}) as port:
        answer = health("ready", "--json", "--url", f"http://127.0.0.1:{port}")
    found = json.loads(answer.stdout)
    assert (answer.returncode, found["schema"], found["ok"], found["answer"]["reasons"]) == (
        NO,
        1,
        False,
        ["it drains"],
    )


def test_a_probe_loads_no_database_driver() -> None:
    heavy = {"psycopg", "starlette", "msgspec", "rich"}
    code = f"import sys; import tenure.cli.health; print(sorted({heavy!r} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert answer.stdout == "[]\n"
