"""`tenure serve` as a process: its end, its port, its prefix and its token."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import httpx
import pytest

from faces.serving import serving
from faces.web_tools import SHOWN, Stream
from patience import soon
from world import World

pytestmark = pytest.mark.one_server


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_with_open_tabs_ends_the_server_within_a_second_and_without_a_word(world: World, number: int) -> None:
    with (
        serving(world, "--port", "0") as server,
        httpx.Client(base_url=server.address, headers=SHOWN, timeout=120) as web,
    ):
        streams = [Stream(web), Stream(web)]
        for stream in streams:
            stream.saw("tick")
        code, seconds, said = server.end(number)
        assert (code, said) == (0, "")
        assert seconds < soon(1.0)
        for stream in streams:
            assert stream.ended.wait(90)


def test_it_takes_a_free_port_when_its_own_is_taken_unless_that_one_was_asked_for(world: World) -> None:
    with serving(world) as first, serving(world) as second:
        assert httpx.get(f"{second.address}/health/ready", timeout=120).status_code == 200
        assert first.address != second.address
        assert "is taken" in second.said[0]
        port = first.address.rpartition(":")[2]
        again = subprocess.run(
            [sys.executable, "-c", "from tenure.cli import main; main()", "serve", "--port", port],
            env={**os.environ, "TENURE_DATABASE_URL": world.url, "TENURE_SCHEMA": world.schema},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (again.returncode, f"--port {port} is taken" in again.stderr) == (78, True)


def test_with_a_token_it_serves_below_its_prefix_to_whom_shows_it(world: World) -> None:
    with serving(world, "--port", "0", "--prefix", "ops", "--host", "127.0.0.1", TENURE_WEB_TOKEN="t" * 20) as server:
        assert server.address.endswith("/ops")
        assert httpx.get(f"{server.address}/api/me", timeout=120).status_code == 401
        shown = httpx.get(f"{server.address}/api/me", headers={"authorization": f"Bearer {'t' * 20}"}, timeout=120)
        assert (shown.json()["actor"], shown.json()["role"]) == ("token", "admin")
