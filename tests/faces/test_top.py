"""`tenure top`: one picture of the fleet, drawn in place on a terminal that is left clean, printed into a pipe."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

import warm
from crew import eventually
from faces.terminal import Terminal
from faces.test_fleet_commands import SAID, command, tenure
from tenure.cli import top
from tenure.errors import UNREACHABLE, USAGE
from tenure.model.rows import Lease
from tenure.verbs import fleet, history, queues
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def shop(world: World) -> World:
    """A world with something to see in every part of the picture."""
    for n in range(3):
        world.enqueue(queue="mail", key=f"order:{n}")
    world.enqueue(delay_seconds=3600)
    world.enqueue(ordered=True, key="a", queue="ledger")
    world.run(queues.pause("reports"))
    world.run(fleet.register("w-here", SAID))
    world.run(
        history.refuse(
            [
                {
                    "age_seconds": 1,
                    "row_id": "00000000-0000-0000-0000-000000000001",
                    "worker": "w-stale",
                    "verb": "complete",
                    "stale_token": 1,
                    "current_token": 2,
                    "reason": "token_mismatch",
                }
            ]
        )
    )
    return world


def test_one_picture_has_the_numbers_the_queues_the_workers_and_the_refused_writes(shop: World) -> None:
    said = tenure(shop, "top", "--once").stdout
    numbers = said.splitlines()[0]
    assert re.search(r"due \d+   processing \d+   scheduled 1   ended badly 0   oldest \d+ s   workers 1", numbers), (
        numbers
    )
    assert re.search(r"^mail +\d", said, re.MULTILINE)
    assert re.search(r"^ledger +1", said, re.MULTILINE)
    assert re.search(r"^reports +0 +0\.0 +paused$", said, re.MULTILINE)
    assert re.search(r"^w-here +alive +\d+s +3/20 +mail,default$", said, re.MULTILINE)
    assert re.search(r"w-stale +complete .* 1 +2 +token_mismatch", said)
    assert "\nthe last writes that were refused, at most 5, however long ago:\n" in said, "the number is of an hour"
    assert "\x1b" not in said


def test_a_dead_worker_has_no_slots(shop: World) -> None:
    shop.sql("UPDATE workers SET status = 'dead'")
    assert re.search(r"^w-here +dead +\d+s +- +mail,default$", tenure(shop, "top", "--once").stdout, re.MULTILINE)


@pytest.mark.parametrize("width", [40, 60, 80, 100, None])
def test_no_number_is_cut_off_however_narrow_the_terminal_is(shop: World, width: int | None) -> None:
    said = top.lines(top.look(shop.conn, shop.schema), width)
    above = said[: said.index("")]
    names = [*history.LeaseCounts._fields, "due", "processing", "scheduled", "ended badly", "oldest", "workers"]
    for name in names:
        assert re.search(rf"\b{name.replace('_', ' ')} [\d-]", "\n".join(above)), name
    assert width is None or all(len(line) <= width for line in above)
    assert re.search(r"hour:\s+stale writes blocked", "\n".join(above)), "what matters most comes first"


def test_for_programs_it_is_one_document(shop: World) -> None:
    answer = tenure(shop, "top", "--once", "--json")
    found = json.loads(answer.stdout)
    assert (answer.returncode, answer.stderr, found["schema"]) == (0, "", 1)
    assert found["overview"]["scheduled"] == {"n": 1, "more": False}
    assert {each["queue"] for each in found["queues"]} >= {"mail", "ledger", "reports"}
    assert found["workers"][0]["id"] == "w-here"
    assert found["refusals"][0]["stale_token"] == 1
    assert list(found) == sorted(found)


def test_rates_are_those_of_the_last_whole_minute(world: World) -> None:
    slot = {
        "back": 1, "queue": "mail", "acquired": 120, "again": [], "generations": [], "renewed": 0,
        "expired": 0, "lost": 0, "stale_writes_blocked": 0,
        "completed": 120, "retried": 0, "released": 0, "failed": 0, "dead_lettered": 0,
        "cancelled": 0, "waits": [0] * 17, "runs": [0] * 17,
    }  # fmt: skip
    world.run(history.tally([slot], age_seconds=10.0))
    eventually(lambda: re.search(r"^mail +0 +2\.0$", tenure(world, "top", "--once").stdout, re.MULTILINE))


def test_into_a_pipe_it_prints_picture_after_picture_until_it_is_told_to_stop(world: World) -> None:
    process = subprocess.Popen(
        command(world, "top", "--interval", "0.5"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    seen = 0
    for line in process.stdout:
        seen += line.startswith("due")
        if seen == 3:
            process.send_signal(signal.SIGINT)
            break
    out, trouble = process.communicate(timeout=120)
    assert (process.returncode, trouble) == (0, "")
    assert "\x1b" not in out


def test_on_a_terminal_q_ends_it_and_leaves_the_terminal_as_it_was(shop: World) -> None:
    with Terminal(command(shop, "top", "--interval", "0.5")) as screen:
        screen.until("q ends this")
        screen.press("q")
        assert screen.end() == 0
        assert screen.settings == screen.before
    assert screen.seen.count("\x1b[?1049h") == screen.seen.count("\x1b[?1049l") == 1  # into the other screen, and back
    assert screen.seen.rindex("\x1b[?25h") > screen.seen.rindex("\x1b[?25l")  # the cursor is there again


def test_ctrl_c_on_a_terminal_does_the_same(shop: World) -> None:
    with Terminal(command(shop, "top", "--interval", "60")) as screen:
        screen.until("q ends this")
        screen.interrupt()
        assert screen.end() == 0
        assert screen.settings == screen.before
    assert "Traceback" not in screen.seen
    assert screen.seen.count("\x1b[?1049l") == 1


def test_without_rich_a_terminal_gets_plain_text(world: World) -> None:
    hidden = (
        "import signal, sys; sys.modules['rich'] = None; sys.modules['rich.live'] = None;"
        "signal.signal(signal.SIGINT, signal.default_int_handler); from tenure.cli import main; main()"
    )
    options = ["top", "--interval", "0.5", "--database-url", world.url, "--schema", world.schema]
    with Terminal([sys.executable, "-c", hidden, *options]) as screen:
        screen.until("no workers")
        screen.interrupt()
        screen.end()
    assert "\x1b[?1049h" not in screen.seen


def test_a_name_with_control_characters_cannot_speak_to_the_terminal(world: World) -> None:
    world.enqueue(queue="evil\x1b[2Jqueue")
    said = tenure(world, "top", "--once").stdout
    assert "\x1b" not in said
    assert "evil" in said


def test_a_row_held_is_counted_as_held(world: World) -> None:
    world.enqueue()
    assert isinstance(world.claim_one("A").lease, Lease)
    assert " processing 1 " in tenure(world, "top", "--once").stdout


@pytest.mark.parametrize("given", ["0", "0.1", "x"])
def test_an_interval_that_cannot_be_is_refused(world: World, given: str) -> None:
    answer = tenure(world, "top", "--interval", given)
    assert answer.returncode == USAGE
    assert "Traceback" not in answer.stderr


def test_without_a_database_it_says_so(world: World) -> None:
    env = {**os.environ, "TENURE_DATABASE_URL": "postgresql://tenure@127.0.0.1:1/tenure"}
    answer = warm.run("top", env=env)
    assert answer.returncode == UNREACHABLE
    assert len(answer.stderr.splitlines()) == 1
