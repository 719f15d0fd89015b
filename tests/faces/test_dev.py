"""`tenure dev`: one command runs it all, a save takes effect, broken code is waited for, and nothing is left after."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import psycopg
import pytest

import warm
from faces import embedded_tools as tools
from tenure import embedded
from tenure.cli import dev, reload
from tenure.cli.database import Database
from tenure.cli.reload import Watch
from tenure.embedded.project import in_database
from tenure.errors import BAD_SETTINGS, BadSettings
from tenure.postgres import migrate
from world import World

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
TENURE = [sys.executable, "-c", "from tenure.cli import main; main()"]
SLOW = """

@inbox.handler("slow")
def slow(job: Job) -> None:
    while {goes_on}:
        job.check()
"""


class Dev:
    """`tenure dev` at work on the starter app, with a home of its own."""

    def __init__(self, folder: Path, home: Path, *options: str, program: Sequence[str] = TENURE) -> None:
        self.folder, self.home, self.app = folder, home, folder / "app.py"
        self._out = folder.parent / f"{folder.name}.out"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "TENURE_", "DATABASE_URL"))}
        self.env = {**kept, "TENURE_HOME": str(home)}
        with self._out.open("w") as out:
            self.process = subprocess.Popen(
                [*program, "dev", "app:inbox", "--no-open", *options],
                cwd=folder, env=self.env, stdin=subprocess.DEVNULL, stderr=out, stdout=out,
            )  # fmt: skip

    def said(self) -> str:
        return self._out.read_text()

    def until(self, words: str, n: int = 1) -> str:
        """All it said, once these words were said n times."""
        return tools.until(
            lambda: said if (said := self.said()).count(words) >= n else "",
            f"{words!r} {n} times in {self.said()!r}",
            60,
        )

    def up(self) -> Dev:
        """Itself, once its worker is."""
        self.until("worker_started")
        return self

    @property
    def workers(self) -> list[int]:
        """The pids of its workers, the latest last."""
        return [int(pid) for pid in re.findall(r"worker_started +worker=\S+-(\d+)-", self.said())]

    def save(self, text: str, at_ns: int | None = None) -> None:
        """Change the app, as if at this time, and wait until the worker that runs it is another one."""
        before = len(self.workers)
        draft = self.folder / "draft"
        draft.write_text(text)
        if at_ns is not None:
            os.utime(draft, ns=(at_ns, at_ns))
        draft.replace(self.app)
        self.until("worker_started", before + 1)

    def run(self, *words: str) -> str:
        """A command in another terminal."""
        done = subprocess.run(
            words, cwd=self.folder, env=self.env, capture_output=True, text=True, check=True, timeout=120
        )
        return done.stdout

    def send(self, kind: str, payload: str = "{}") -> str:
        """The id of a row that was sent by the command line."""
        done = warm.run("enqueue", kind, payload, cwd=self.folder, env=self.env)
        done.check_returncode()
        return done.stdout.split()[-1]

    def ask(self, query: str, *values: object) -> list[tuple[object, ...]]:
        folder = self.home / f"pg{embedded.binaries().major}"
        url = in_database(embedded.status(folder).url, embedded.project(self.folder).database)
        with psycopg.connect(url, autocommit=True) as conn:
            return conn.execute(query.encode(), values).fetchall()

    def status_of(self, row: str) -> tuple[object, ...]:
        return self.ask("SELECT status, attempts FROM tenure.inbox WHERE id = %s", row)[0]

    def completes(self, row: str) -> None:
        tools.until(lambda: self.status_of(row)[0] == "completed", f"row {row} in {self.said()!r}", 60)

    def ended(self, number: signal.Signals) -> int:
        """Its exit code after this signal, once nothing of it runs any more."""
        self.process.send_signal(number)
        code = self.process.wait(90)
        left = [pid for pid in self.workers if Path(f"/proc/{pid}/cmdline").exists() and _words_of(pid)]
        tools.until(lambda: not [pid for pid in left if _words_of(pid)], "its worker ends")
        tools.until(lambda: not tools.processes_of(self.home), "its Postgres ends")
        return code


def _words_of(pid: int) -> bytes:
    """The command line of a process; empty once it has ended, reaped or not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("home")
    with tools.ended_after(path):
        yield path


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `tenure new` writes."""
    folder = tmp_path_factory.mktemp("work") / "shop"
    warm.run("new", str(folder)).check_returncode()
    return folder


@pytest.fixture(scope="module")
def running(starter: Path, home: Path) -> Iterator[Dev]:
    """One for the tests that only need it to run, each of which leaves the app as it was."""
    with _ending(Dev(starter, home, "--port", "0", "--drain-seconds", "0.2")) as dev:
        dev.up().run(sys.executable, "app.py")
        yield dev


@pytest.fixture
def scene(running: Dev) -> Iterator[Dev]:
    before = running.app.read_text()
    yield running
    if running.app.read_text() != before:
        running.save(before)


@contextlib.contextmanager
def _ending(dev: Dev) -> Iterator[Dev]:
    try:
        yield dev
    finally:
        if dev.process.poll() is None:
            dev.process.kill()
            dev.process.wait()


def test_it_says_what_it_started_and_where(scene: Dev) -> None:
    said = scene.said()
    assert re.search(rf"postgres +18\.\d+, embedded, started in .* {scene.home}/pg18", said)
    assert re.search(rf"schema +tenure, migrated \(migration {migrate.newest()}\)", said)
    assert f"restarts when a file below {scene.folder} is saved" in said
    found = re.search(r"dashboard +(http://127\.0\.0\.1:\d+/)(\?link=\S+)  \(good once\)", said)
    assert found
    with httpx.Client(base_url=found[1], timeout=120) as web:
        assert web.get("").status_code == 200
        assert web.get("health/ready").status_code == 200
        assert web.get("api/drills").json()["error"].endswith("open the one that `tenure dev` printed last")
        assert web.get(found[2]).status_code == 303
        assert web.get("api/drills").status_code == 200
    further = scene.until("the next link, good once: ").rpartition("the next link, good once: ")[2].split()[0]
    assert further.startswith(f"{found[1]}?link=")
    assert further != f"{found[1]}{found[2]}"


def test_a_row_that_was_sent_is_completed_and_paying_twice_is_one_receipt(scene: Dev) -> None:
    scene.completes(scene.send("send_receipt", '{"order_id": 1}'))
    assert scene.run(sys.executable, "app.py", "2", "2") == "order 2: receipt enqueued\norder 2: receipt duplicate\n"
    tools.until(lambda: scene.ask("SELECT count(*) FROM receipts WHERE order_id <= 2") == [(2,)], "two receipts")


def test_a_save_takes_effect_and_a_second_one_of_the_same_size_in_the_same_second_too(scene: Dev) -> None:
    text = scene.app.read_text()
    for more in (1000, 2000):
        scene.save(text.replace("[order_id, job.fence]", f"[order_id + {more}, job.fence]"), at_ns=10**18 + more)
        scene.completes(scene.send("send_receipt", '{"order_id": 3}'))
        assert scene.ask("SELECT 1 FROM receipts WHERE order_id = %s", more + 3)
    assert "tenure: app.py saved, the worker restarts" in scene.said()


def test_broken_code_is_told_in_a_sentence_and_the_save_that_mends_it_is_waited_for(scene: Dev) -> None:
    text, told = scene.app.read_text(), scene.said().count("waiting for the next save")
    scene.app.write_text(f"{text}\ndef (\n")
    said = scene.until("waiting for the next save", told + 1)
    assert (
        f"tenure: 'app:inbox' cannot be loaded: SyntaxError: invalid syntax (app.py, line {text.count(chr(10)) + 2})"
        in said
    )
    assert "Traceback" not in said
    row = scene.send("send_receipt", '{"order_id": 4}')
    assert scene.status_of(row) == ("pending", 0)
    assert scene.said() == said  # it does not try again by itself
    scene.save(text)
    scene.completes(row)


def test_a_worker_that_dies_is_told_and_started_anew(scene: Dev) -> None:
    before = scene.workers
    os.kill(before[-1], signal.SIGKILL)
    scene.until("the worker ended with SIGKILL, it restarts at the next save or in 1 s")
    scene.until("worker_started", len(before) + 1)
    scene.completes(scene.send("send_receipt", '{"order_id": 5}'))


def test_a_row_in_the_middle_of_a_save_is_given_back_at_no_cost(scene: Dev) -> None:
    text = scene.app.read_text()
    scene.save(text + SLOW.format(goes_on=True))
    row = scene.send("slow")
    tools.until(lambda: scene.status_of(row) == ("processing", 1), "the row is held")
    scene.save(text + SLOW.format(goes_on=False))
    scene.completes(row)
    assert scene.status_of(row) == ("completed", 1)


def test_settings_are_read_again_when_they_are_saved(scene: Dev) -> None:
    settings, before = scene.folder / "tenure.toml", len(scene.workers)
    text = settings.read_text()
    settings.write_text(text.replace("slots = 20", "slots = 3"))
    assert "slots=3\n" in scene.until("worker_started", before + 1)
    settings.write_text(text)
    scene.until("worker_started", before + 2)


def test_sigterm_ends_all_of_it(running: Dev) -> None:
    assert running.ended(signal.SIGTERM) == 0
    assert running.said().rstrip().endswith("reason=drained")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name)
def test_nothing_is_left_however_it_ends(starter: Path, home: Path, number: signal.Signals) -> None:
    """In the end also where it cannot tidy up: the kernel ends the worker, the embedded Postgres itself."""
    with _ending(Dev(starter, home, "--port", "0").up()) as dev:
        assert dev.ended(number) == (-number if number == signal.SIGKILL else 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_before_the_dashboard_is_served_ends_it_as_well(
    starter: Path, home: Path, number: signal.Signals
) -> None:
    """The worker may be up before the server: its modules are imported meanwhile."""
    late = "import signal; from tenure.cli import dev, main; dev._serve = lambda *_: [signal.pause() for _ in range(9)]"
    with _ending(Dev(starter, home, "--port", "0", program=[sys.executable, "-c", f"{late}; main()"]).up()) as dev:
        assert dev.ended(number) == 0
        assert "interrupted" not in dev.said()


def test_a_port_that_is_taken_is_told_and_another_one_taken(starter: Path, home: Path) -> None:
    with contextlib.closing(socket.socket()) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # it is taken by somebody else
            taken.bind(("127.0.0.1", 7117))
            taken.listen()
        with _ending(Dev(starter, home).up()) as dev:
            assert "port 7117 is taken, using a free one" in dev.said()
            assert dev.ended(signal.SIGTERM) == 0


def test_without_reload_broken_code_ends_it(starter: Path, home: Path) -> None:
    with _ending(Dev(starter, home, "--port", "0", "--no-reload", "--slots", "0")) as dev:
        assert dev.process.wait(90) == BAD_SETTINGS
        assert "tenure: slots=0 must be between 1 and 10000" in dev.said()


def test_an_app_that_cannot_be_one_is_refused_before_anything_starts(tmp_path: Path) -> None:
    done = warm.run("dev", "shop", cwd=tmp_path)
    assert done.returncode == BAD_SETTINGS
    assert done.stderr == "tenure: 'shop' must name an inbox: write MODULE:INBOX, e.g. shop.jobs:inbox\n"


@pytest.mark.one_server
def test_only_who_says_so_works_on_a_database_of_another_machine(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "_is_here", lambda *_: False)
    known = Database(world.url, world.schema, "DATABASE_URL", "")
    fresh = Database(world.url, f"{world.schema}_dev", "DATABASE_URL", "")
    with psycopg.connect(world.url, autocommit=True) as conn:
        try:
            for each in (known, fresh):  # also one that is up to date: a worker would claim its rows
                with pytest.raises(
                    BadSettings, match=f"DATABASE_URL names a database on {conn.info.host}, .* add --remote"
                ):
                    dev._schema(each, remote=False)
            assert not migrate.applied(conn, fresh.schema)
            assert "up to date" in dev._schema(known, remote=True)
            assert "migrated" in dev._schema(fresh, remote=True)
            assert len(migrate.applied(conn, fresh.schema)) == migrate.newest()
        finally:
            conn.execute(f"DROP SCHEMA IF EXISTS {fresh.schema} CASCADE".encode())


@pytest.mark.parametrize(
    ("host", "address", "here"),
    [
        ("/run/postgresql", "", True),
        ("localhost", "127.0.0.1", True),
        ("127.0.0.1", "", True),
        ("::1", "::1", True),
        ("db.example.com", "10.0.0.7", False),
        ("localhost", "10.0.0.7", False),
        ("db.example.com", "", False),
    ],
)
def test_this_machine_is_told_by_where_the_connection_went(host: str, address: str, here: bool) -> None:
    assert dev._is_here(host, address) is here


def test_a_file_that_is_new_changed_or_gone_was_saved(tmp_path: Path) -> None:
    inner = tmp_path / "pack" / "jobs.py"
    inner.parent.mkdir()
    watch = Watch([tmp_path])
    assert watch.saved() == []
    inner.touch()
    assert watch.saved() == [str(inner)]
    inner.write_text("x = 1\n")
    assert watch.saved() == [str(inner)]
    (tmp_path / "tenure.toml").touch()
    inner.unlink()
    assert watch.saved() == [str(inner), str(tmp_path / "tenure.toml")]
    assert watch.saved() == []


def test_a_link_that_leads_nowhere_hides_no_other_file(tmp_path: Path) -> None:
    for name in (".#app.py", "gone.py"):
        (tmp_path / name).symlink_to("nobody@nowhere:1")
    names = [tmp_path / f"{letter}.py" for letter in "abcdefgh"]  # before and after it, in whatever order
    watch = Watch([tmp_path])
    for path in names:
        path.touch()
    assert watch.saved() == [str(path) for path in names]


class Restless:
    """A folder in which something is written all the time."""

    def __init__(self) -> None:
        self.looks = 0

    def seen(self, _roots: object) -> dict[str, tuple[int, int]]:
        self.looks += 1
        return {"log.py": (self.looks, 0)}


def test_a_file_that_never_holds_still_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Restless()
    monkeypatch.setattr(reload, "_seen", folder.seen)
    monkeypatch.setattr(reload, "SETTLE_SECONDS", 0.0)
    assert Watch([]).saved() == ["log.py"]
    assert folder.looks == 1 + reload.SETTLE_ROUNDS_MAX


def test_nothing_is_waited_for_once_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, over = Restless(), threading.Event()
    monkeypatch.setattr(reload, "_seen", folder.seen)
    over.set()
    Watch([], over).saved()
    assert folder.looks == 2


@pytest.mark.parametrize(
    "place", [".venv/lib/x.py", ".git/x.py", "__pycache__/x.py", "node_modules/a/x.py", "notes.txt", ".#app.py"]
)
def test_what_is_not_theirs_to_edit_is_not_watched(tmp_path: Path, place: str) -> None:
    watch = Watch([tmp_path])
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).touch()
    assert watch.saved() == []
