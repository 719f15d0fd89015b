"""Nobody but the owner reaches the embedded Postgres or a stage: another user of the machine tries, by every way.

The ways are those of stranger.py, which runs as another user where this one may become another (root); files and
processes are closed to others only, so elsewhere these ways are left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from faces import embedded_tools as tools
from faces import stranger
from faces.terminal import Terminal
from faces.test_dev import Dev
from tenure import embedded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
TENURE = [sys.executable, "-c", "from tenure.cli import main; main()"]
UID = 54321  # not that of nobody: where namespaces are blocked, root's embedded Postgres may run as that
START_SECONDS_MAX = 100
APP = """
from tenure import Inbox, Job

inbox = Inbox()


@inbox.handler("work")
def work(job: Job) -> None: ...
"""
BROWSER = '#!/bin/sh\necho "$@" > {seen}.new && mv {seen}.new {seen}\n'
WAYS = tuple(stranger.Stranger({"used": "", "folders": [], "files": [], "pids": []}).ways)
OF_FILES = WAYS[WAYS.index("Postgres by its socket") : WAYS.index("the words of a process")]
IS_ROOT = os.geteuid() == 0


class Owner:
    """Three dashboards of one user, each with a stage on it, over one embedded Postgres."""

    def __init__(self, folder: Path) -> None:
        self.home, self.folder = folder / "home", folder
        self.work, self.opened = folder / "work", folder / "opened"
        self.pids: dict[str, int] = {}
        self.links: dict[str, str] = {}
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "TENURE_", "DATABASE_URL"))}
        self.env["TENURE_HOME"] = str(self.home)

    def dev(self, stack: contextlib.ExitStack) -> None:
        self.work.mkdir()
        (self.work / "app.py").write_text(APP)
        made = Dev(self.work, self.home, "--port", "0")
        stack.callback(self._end, made.process)
        self._note("dev", made.process.pid, made.up().said())

    def serve(self, stack: contextlib.ExitStack) -> None:
        command = [*TENURE, "serve", "--drills", "--port", "0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=self.env, cwd=self.work)
        stack.callback(self._end, process)
        assert process.stderr is not None
        self._note("serve", process.pid, process.stderr.readline())
        threading.Thread(target=process.stderr.read, daemon=True).start()

    def demo(self, stack: contextlib.ExitStack) -> None:
        """On a terminal, with a browser that only says what it was given."""
        browser = self.folder / "browser"
        browser.write_text(BROWSER.format(seen=self.opened))
        browser.chmod(0o755)
        env = {**self.env, "DISPLAY": ":0", "BROWSER": str(browser)}
        terminal = Terminal([*TENURE, "demo", "--port", "0"], **env)
        stack.enter_context(terminal)
        self._note("demo", terminal.process.pid, terminal.until(" completed · ", START_SECONDS_MAX))
        threading.Thread(target=_drink, args=[terminal], daemon=True).start()
        tools.until(self.opened.exists, "a browser is opened", START_SECONDS_MAX)

    def enter(self, name: str) -> None:
        """Open the link, as the owner does, and a stage: its line to Postgres listens on loopback."""
        with httpx.Client(base_url=self.address(name), headers={"x-tenure": "1"}, timeout=120) as web:
            web.get(self.links[name])
            answer = web.post("/api/stage", json={})
            assert answer.status_code == 201, answer.text

    def address(self, name: str) -> str:
        return re.sub(r"/(\?.*)?$", "", self.links[name])

    def facts(self, name: str) -> dict[str, Any]:
        """What anybody may know of one of the three; of ports and processes, whatever its owner has."""
        (folder,) = self.home.glob("pg*")
        pids = [pid for top in self.pids.values() for pid in _family(top)]
        socket = re.findall(r"host=([^&]*)", embedded.status(folder).url)[0].replace("%2F", "/")
        pages = [Path(word[len("file://") :]) for word in self.opened.read_text().split() if word.startswith("file://")]
        folders = [folder, folder / "data", *(page.parent for page in pages)]
        files = [folder / "server.log", folder / "data" / "postgresql.conf", *pages]
        assert all(path.exists() for path in (*folders, *files)), "what is not there nobody can read"
        return {
            "address": self.address(name),
            "used": self.links[name].partition("?link=")[2],
            "ports": sorted(_ports(pids)),
            "pids": [*pids, *tools.processes_of(self.home)],
            "socket": f"{socket}/.s.PGSQL.5432",
            "folders": list(map(str, folders)),
            "files": list(map(str, files)),
        }

    def _note(self, name: str, pid: int, said: str) -> None:
        found = re.search(r"http://127\.0\.0\.1:\d+/(\?link=[\w-]+)?", said)
        assert found, said
        self.pids[name], self.links[name] = pid, found[0]

    @staticmethod
    def _end(process: subprocess.Popen[Any]) -> None:
        process.terminate()
        try:
            process.wait(90)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(90)


def _drink(terminal: Terminal) -> None:
    """A terminal that nobody reads fills up, and stops the demo."""
    with contextlib.suppress(OSError, ValueError):
        while True:
            terminal._read(0.2)


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from _family(int(child))


def _ports(pids: list[int]) -> set[int]:
    """On which ports of loopback these processes listen: with that of the dashboard, one for each stage."""
    inodes = {os.readlink(fd) for pid in pids for fd in Path(f"/proc/{pid}/fd").glob("*") if fd.is_socket()}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(line[1].partition(":")[2], 16) for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in inodes}


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    made = Owner(tmp_path_factory.mktemp("owner"))
    with tools.ended_after(made.home), contextlib.ExitStack() as stack:
        made.dev(stack)
        made.serve(stack)
        made.demo(stack)
        for name in made.links:
            made.enter(name)
        yield made


@pytest.fixture(scope="module")
def got(owner: Owner) -> dict[str, dict[str, str]]:
    """By the name of each command, what a stranger got by each way."""
    return {name: _tried(owner.facts(name)) for name in owner.links}


def _tried(facts: dict[str, Any]) -> dict[str, str]:
    assert len(facts["ports"]) >= 6, "three dashboards, and a line for each stage"
    who: dict[str, Any] = {"user": UID, "group": UID, "extra_groups": []} if IS_ROOT else {}
    program = Path(stranger.__file__).read_text()
    done = subprocess.run(
        [_python(who), "-I", "-c", program], input=json.dumps(facts), capture_output=True, text=True, timeout=100,
        cwd="/", check=False, **who,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _python(who: dict[str, Any]) -> str:
    """One that this user may run: a virtualenv, or what it was made of, may be closed to others."""
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}", "/usr/bin/python3"):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run([python, "-I", "-c", ""], check=True, capture_output=True, cwd="/", **who)
            return python
    pytest.skip(f"no Python here that uid {UID} may run")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["dev", "serve", "demo"])
def test_a_stranger_gets_nothing(got: dict[str, dict[str, str]], name: str, way: str) -> None:
    if way in OF_FILES and not IS_ROOT:
        pytest.skip("only root can become another user, and files are closed to others only")
    assert got[name][way] == ""


def test_the_owner_gets_in_by_the_link_and_by_the_next_one(owner: Owner) -> None:
    """The negative control: what was refused above was refused for the secret alone."""
    assert owner.opened.read_text().startswith("file://")
    with httpx.Client(base_url=owner.address("dev"), timeout=120) as web:
        said = Path(f"{owner.work}.out").read_text
        tools.until(lambda: said().count("?link=") >= 2, "the next link", 60)
        assert web.get("/api/overview").status_code == 401
        assert web.get(re.findall(r"http://\S+\?link=\S+", said())[-1]).status_code == 303
        assert web.get("/api/overview").status_code == 200
        assert web.get("/api/drills").status_code == 200
