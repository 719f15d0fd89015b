"""Relays killed after they sent, and frozen before it: a slice of `make relay-crashes`, and its control."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slices import slice_of
from world import World

pytestmark = pytest.mark.one_server


def crashes(world: World, *options: str) -> tuple[int, dict[str, int]]:
    """One run in a process of its own, which has no threads and may fork; what its judge found."""
    env = {**os.environ, "TENURE_TEST_DATABASE_URL": world.url, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "chaos.relay_crashes", *options]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=500)
    assert done.stdout, done.stderr[-2000:]
    words = (word.split("=") for word in done.stdout.split() if "=" in word)
    return done.returncode, {name: int(value) for name, value in words}


@pytest.mark.parametrize("point", slice_of(["claimed", "sending", "sent", "frozen"], ["sent", "frozen"]))
def test_every_event_is_there_once_and_in_order_whenever_a_relay_was_killed_or_frozen(world: World, point: str) -> None:
    code, found = crashes(world, "--point", point, "--times", "2", "--seed", "3")
    assert (code, found["lost"], found["doubles"], found["inversions"], found["late"]) == (0, 0, 0, 0, 0)
    assert found["ended"] >= 2


def test_control_without_the_id_the_stream_has_doubles(world: World) -> None:
    code, found = crashes(world, "--control", "--times", "3", "--seed", "3")
    assert code == 1
    assert found["doubles"] > 0
    assert found["lost"] == 0
