"""The demo as a newcomer runs it: the tour and its proofs, the keys, and what it leaves behind, which is nothing."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql

from crew import eventually
from faces.embedded_tools import processes_of, until
from faces.terminal import Terminal
from tenure import embedded
from tenure.cli import tenure
from tenure.demo import leftovers, opening, till, tour
from tenure.demo import proofs as proven
from tenure.demo.moves import moves
from tenure.drills.stage.acts import Enqueue
from tenure.drills.stage.said import Said
from tenure.drills.stage.stage import Stage
from tenure.model.ring import Ring

pytestmark = pytest.mark.one_server
COMMAND = [
    sys.executable, "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from tenure.cli import main; main()",
    "demo",
]  # fmt: skip
TOUR_SECONDS_MAX = 180.0  # some twenty on a quiet machine
FIRST_WORD_SECONDS_MAX = 2.0
ROWS_WITHOUT_AN_ORDER = "SELECT (SELECT count(*) FROM {0}.inbox) - (SELECT count(*) FROM {0}.orders)"
DONE = "SELECT count(*) FROM {}.inbox WHERE status = 'completed'"
DEAD = "SELECT count(*) FROM {}.dead"
REFUSED = "SELECT count(*) FROM {}.refusals"
TWICE = "SELECT count(*) - count(DISTINCT order_id) FROM {}.ledger"


def environ(home: Path | None = None, **more: str) -> dict[str, str]:
    """No database and no setting but these."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TENURE_", "PG", "DATABASE_URL", "NO_COLOR"))}
    return clean | ({"TENURE_HOME": str(home)} if home else {}) | more


def workers(pid: int) -> dict[int, str]:
    """The worker processes of a demo, each with its state as the kernel has it."""
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            if b"tenure.drills.actors.hand" in Path(f"/proc/{child}/cmdline").read_bytes():
                found[int(child)] = state(int(child))
    return found


def state(pid: int) -> str:
    """R, S, T for stopped, Z; nothing for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def cpu_seconds(pid: int) -> float:
    """How long a process has run on a core."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def ended(pids: list[int]) -> bool:
    """None of them runs or stands still."""
    return all(state(pid) in ("", "Z", "X") for pid in pids)


def schemas(url: str) -> list[str]:
    """The throw-away schemas that are there."""
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT nspname FROM pg_namespace WHERE nspname ~ '^tenure_(demo|drill)_' ORDER BY 1")
        return [name for (name,) in rows]


def number(url: str, schema: str, query: str) -> int:
    """One number of the demo's schema."""
    with psycopg.connect(url) as conn:
        row = conn.execute(sql.SQL(query).format(sql.Identifier(schema))).fetchone()
    assert row is not None
    return int(row[0])


def is_served(address: str) -> bool:
    """Does anybody answer there?"""
    host, port = address.removeprefix("http://").split(":")
    with socket.socket() as knock:
        return knock.connect_ex((host, int(port))) == 0


def word(text: str, pattern: str) -> str:
    """What a pattern finds in what was shown."""
    found = re.search(pattern, text)
    assert found, f"{pattern!r} is not in {text!r}"
    return found[1]


SCHEMA, ADDRESS = r"(tenure_demo_[0-9a-f]{8})", r"(http://127\.0\.0\.1:\d+)/"
LINK = r"dashboard +http://127\.0\.0\.1:\d+(/\?link=\S+)  \(good once\)"


class Live:
    """A demo with a person at its keys, and a second look at its database."""

    def __init__(self, terminal: Terminal, url: str) -> None:
        self.terminal, self.url = terminal, url
        shown = terminal.until(" completed · ")
        self.schema, self.address = word(shown, SCHEMA), word(shown, ADDRESS)
        self.pids = list(workers(terminal.process.pid))

    def number(self, query: str) -> int:
        """Out of its schema."""
        return number(self.url, self.schema, query)

    def press(self, key: str, words: str) -> str:
        """A key, and the line that follows: all that was shown from there on."""
        before = len(self.terminal.seen)
        self.terminal.press(key)
        shown = self.terminal.seen[:before]
        self.terminal.seen = ""
        try:
            self.terminal.until(words)
        finally:
            self.terminal.seen = shown + self.terminal.seen
        return self.terminal.seen[before:]

    def nothing_left(self) -> bool:
        """No worker, no server, no schema."""
        return ended(self.pids) and not is_served(self.address) and self.schema not in schemas(self.url)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the embedded Postgres of these tests lives: made by the first, found by the others."""
    return tmp_path_factory.mktemp("home")


def test_the_tour_ends_with_five_proofs_and_leaves_nothing(home: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--port", "0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environ(home),
    )  # fmt: skip
    assert process.stdout is not None
    shown = process.stdout.readline()
    assert cpu_seconds(process.pid) < FIRST_WORD_SECONDS_MAX  # a busy machine is slow, so its share of a core counts
    while "dashboard" not in shown:
        shown += (line := process.stdout.readline())
        assert line, shown
    address, pids = word(shown, ADDRESS), list(workers(process.pid))
    with httpx.Client(base_url=address, timeout=120) as web:
        assert web.get("/api/overview").status_code == 401
        assert web.get(word(shown, LINK)).status_code == 303
        assert web.get("/api/overview").json()
        assert web.get("/api/drills").json()["drills"]
    rest, trouble = process.communicate(timeout=TOUR_SECONDS_MAX)
    assert (process.returncode, trouble) == (0, "")
    assert [line.split()[:2] for line in rest.splitlines() if "✓" in line] == [["✓", str(n)] for n in range(1, 6)]
    assert "✗" not in rest
    assert "\x1b" not in shown + rest
    assert "dashboard  the next link, good once: " in rest
    assert "stale_write_blocked" in rest
    assert "job_dead_lettered" in rest
    assert len(pids) == 3
    assert ended(pids)
    assert not is_served(address)
    (folder,) = home.glob("pg*")
    until(lambda: not processes_of(folder), "the end of its Postgres")
    with embedded.attach(folder, linger_seconds=0.1) as server:
        assert schemas(server.url) == []
    embedded.wait_for_end(folder)


def test_every_key_does_what_it_says(server_url: str) -> None:
    with Terminal(
        [*COMMAND, "--port", "0", "--database-url", server_url], **environ(COLUMNS="60", DISPLAY="", WAYLAND_DISPLAY="")
    ) as terminal:
        pid = terminal.process.pid
        demo = Live(terminal, server_url)
        demo.press("s", "enqueue_deduplicated")
        demo.press("x", "job_retried")

        demo.press("p", "paused (SIGSTOP)")
        assert list(workers(pid).values()).count("T") == 1
        terminal.until("ledger_written")
        demo.press("r", "stale_write_blocked")
        assert "T" not in workers(pid).values()
        until(lambda: demo.number(REFUSED), "the refusal on record")
        until(lambda: demo.number(DEAD) == 1, "the dead letter")

        demo.press("k", "killed (SIGKILL)")
        until(lambda: sum(not ended([each]) for each in demo.pids) == 2, "one of them gone")
        demo.press("a", "started")
        until(lambda: len(workers(pid)) == 3, "a third worker")
        demo.pids += list(workers(pid))
        demo.press("d", "exit code 0")
        assert len(workers(pid)) == 2

        demo.press("c", "database_unreachable")
        held_up = demo.number(DONE)
        demo.press("c", "database_back")
        until(lambda: demo.number(DONE) > held_up, "work after the cut")
        demo.press("r", "no worker is paused: press p first")
        demo.press("?", "these keys")

        assert demo.number(ROWS_WITHOUT_AN_ORDER) == 0
        assert demo.number(TWICE) == 0
        terminal.press("q")
        assert terminal.end() == 0
        assert "Nothing of it is left" in terminal.seen
        assert terminal.settings == terminal.before
        assert demo.nothing_left()
        feet = [text for text in re.split(r"\r\x1b\[2K|\n", terminal.seen) if " completed · " in text]
        assert max(len(re.sub(r"\x1b\[\d+m", "", foot).rstrip()) for foot in feet) < 60


@pytest.fixture
def taken_port() -> Iterator[None]:
    """We sit on the port of the dashboard; if somebody else does, it must not become free meanwhile: wait for it."""
    held = None
    with contextlib.suppress(AssertionError):  # who stays there is as good as we
        held = eventually(_on_the_port)
    yield
    if held:
        held.close()


def _on_the_port() -> socket.socket | None:
    try:
        return socket.create_server(("127.0.0.1", 7117))
    except OSError:
        return None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
@pytest.mark.usefixtures("taken_port")
def test_however_it_is_told_to_end_nothing_is_left(server_url: str, number: signal.Signals) -> None:
    with Terminal([*COMMAND, "--no-open", "--database-url", server_url], **environ(NO_COLOR="1")) as terminal:
        demo = Live(terminal, server_url)
        demo.press("p", "paused (SIGSTOP)")
        assert "port 7117 is taken, using a free one" in terminal.seen
        assert not re.search(r"\x1b\[[\d;]*m", terminal.seen)
        terminal.process.send_signal(number)
        assert terminal.end() == (0 if number == signal.SIGINT else 128 + number)
        assert "Traceback" not in terminal.seen
        assert terminal.settings == terminal.before
        assert demo.nothing_left()


def test_a_killed_demo_leaves_only_its_schema_and_reset_removes_that(home: Path) -> None:
    with Terminal([*COMMAND, "--port", "0"], **environ(home)) as terminal:
        shown = terminal.until(" completed · ")
        schema, address, pids = word(shown, SCHEMA), word(shown, ADDRESS), list(workers(terminal.process.pid))
        terminal.process.kill()
        terminal.process.wait(90)
    (folder,) = home.glob("pg*")
    until(lambda: ended(pids), "the end of its workers")
    until(lambda: not processes_of(folder), "the end of its Postgres")
    assert not is_served(address)
    with Terminal([*COMMAND, "--port", "0", "--reset"], **environ(home)) as terminal:
        terminal.until(f"removed    {schema}")
        terminal.until(" completed · ")
        terminal.process.terminate()
        assert terminal.end() == 128 + signal.SIGTERM
    until(lambda: not processes_of(folder), "the end of its Postgres")
    with embedded.attach(folder, linger_seconds=0.1) as server:
        assert schemas(server.url) == []
    embedded.wait_for_end(folder)


def silent(said: Said) -> None:
    """Nobody listens."""


def test_a_schema_whose_stage_still_stands_is_no_leftover(server_url: str) -> None:
    with psycopg.connect(server_url, autocommit=True) as conn, Stage(server_url, silent) as stage:
        stage.build()
        for name in ("tenure_demo_0badcafe", "tenure_drill_0badcafe", "tenure_demo_of_mine"):
            conn.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
        assert {"tenure_demo_0badcafe", "tenure_drill_0badcafe"} <= set(leftovers.remove(server_url))
        left = schemas(server_url)
        conn.execute("DROP SCHEMA tenure_demo_of_mine")
        assert stage.schema in left
        assert "tenure_demo_of_mine" in left
        assert not [name for name in left if name.endswith("0badcafe")]


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tour without chapters, in a shop without workers: it is over at once."""
    monkeypatch.setattr(tour, "CHAPTERS", ())
    monkeypatch.setattr(opening, "WORKERS", 0)
    for name in os.environ:
        if name not in environ():
            monkeypatch.delenv(name)


@pytest.mark.usefixtures("empty")
def test_a_database_that_the_environment_names_is_left_alone_and_that_is_told(home: Path, server_url: str) -> None:
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute("CREATE SCHEMA tenure_demo_0dd0dd00")
        try:
            elsewhere = {"DATABASE_URL": server_url, "TENURE_DATABASE_URL": server_url, "PGHOSTADDR": "192.0.2.7"}
            ran = CliRunner().invoke(
                tenure, ["demo", "--port", "0", "--reset"], env={**elsewhere, "TENURE_HOME": str(home)}
            )
            assert "note       TENURE_DATABASE_URL, DATABASE_URL, PGHOSTADDR left alone" in ran.output
            assert re.search(r"postgres +18\.\d+, embedded", ran.output)
            assert "removed    nothing" in ran.output
            assert "Five proofs" in ran.output
            assert "tenure_demo_0dd0dd00" in schemas(server_url)
        finally:
            conn.execute("DROP SCHEMA tenure_demo_0dd0dd00")


@pytest.mark.usefixtures("empty")
def test_what_it_prints_for_psql_works_and_holds_no_password(server_url: str) -> None:
    url = f"{server_url}{'&' if '?' in server_url else '?'}password=quite-secret"
    ran = CliRunner().invoke(tenure, ["demo", "--port", "0", "--database-url", url])
    found = re.search(r"PGOPTIONS=--search_path=tenure_demo_\w+ psql (.*)", ran.output)
    assert found, ran.output
    assert "quite-secret" not in ran.output
    (words,) = shlex.split(found[1])
    with psycopg.connect(words) as conn:
        assert conn.info.dbname == psycopg.conninfo.conninfo_to_dict(server_url)["dbname"]


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_without_the_web_it_plays_all_the_same(server_url: str, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    ran = CliRunner().invoke(tenure, ["demo", "--database-url", server_url])
    assert 'dashboard  not installed: pip install "tenure[web]"' in ran.output
    assert "Five proofs" in ran.output


@pytest.mark.usefixtures("empty")
def test_a_tour_on_which_nothing_happens_proves_nothing(server_url: str) -> None:
    ran = CliRunner().invoke(tenure, ["demo", "--port", "0", "--database-url", server_url])
    assert ran.exit_code == 1, ran.output
    assert "Not proven: crash, pause, duplicate, poison, ring" in ran.output
    assert "✗ 1  nobody was killed" in ran.output
    assert "The tour failed" in ran.output


RECEIPT = "INSERT INTO tenure.ledger (order_id, job_id, worker, token) VALUES (%s, gen_random_uuid(), 'worker-A', %s)"
REFUSAL = """
INSERT INTO tenure.refusals (at, row_id, worker, verb, kind, stale_token, current_token, reason)
SELECT clock_timestamp(), id, %s, %s, 'send_receipt', 1, 2, 'token_mismatch' FROM tenure.live
WHERE partition_key = 'order:9182'"""


@pytest.fixture
def stage(server_url: str) -> Iterator[Stage]:
    """A stage without workers: what is written there, a test has written."""
    with Stage(server_url, silent) as stage:
        stage.build()
        yield stage


def held(stage: Stage) -> dict[str, bool]:
    """Which proofs hold."""
    return {proof.name: proof.check(stage).ok for proof in proven.proofs(stage)}


def test_a_second_receipt_takes_its_proof_away(stage: Stage) -> None:
    for order, token in ((proven.CRASH, 2), (proven.PAUSE, 2), (proven.TWICE, 1)):
        Enqueue(order).do(stage)
        stage.sql(RECEIPT, order, token)
    Enqueue(proven.TWICE).do(stage)
    assert held(stage) | {"ring": False} == {
        "crash": True, "pause": False, "duplicate": True, "poison": False, "ring": False
    }  # fmt: skip
    stage.say("drill", "worker_paused", worker="worker-A", pid=0)
    for worker, verb in (("worker-A-1", "release"), ("worker-A-1", "renew"), ("worker-B-1", "complete")):
        stage.sql(REFUSAL, worker, verb)
        assert not held(stage)["pause"], "another worker's, or no write"
    stage.sql(REFUSAL, "worker-A-1", "enter")
    assert held(stage)["pause"]
    for order in (proven.CRASH, proven.PAUSE, proven.TWICE):
        stage.sql(RECEIPT, order, 1)
    assert not any(held(stage).values())


def test_the_till_takes_no_more_orders_than_can_wait(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(till, "BACKLOG_MAX", 5)
    busy = till.Till(stage, 1e9)
    for _ in range(9):
        busy.tend()
    assert stage.sql("SELECT count(*) FROM tenure.live") == [(5,)]
    stage.sql("DELETE FROM tenure.live WHERE partition_key = 'order:1'")
    busy.tend()
    assert busy.last == 6


def test_a_poison_row_must_be_alone_in_its_fate(stage: Stage) -> None:
    Enqueue(1).do(stage)
    Enqueue(proven.POISON, "poison").do(stage)
    stage.sql(RECEIPT, 1, 1)
    assert not proven.put_aside(stage)
    assert not proven.once(stage)


def test_what_moves_between_those_who_stay_is_needless() -> None:
    three = Ring(["A", "B", "C"])
    joined = moves(three, Ring(["A", "B", "C", "D"]))
    assert 200 < joined.moved < 300
    assert joined.needless <= 20
    assert moves(three, three) == (0, 0)
    assert moves(Ring(["A"]), Ring(["B"])) == (1024, 0)


def test_where_drills_are_forbidden_there_is_no_demo() -> None:
    ran = subprocess.run(COMMAND, env=environ(TENURE_DRILLS="forbid"), capture_output=True, text=True, check=False)
    assert ran.returncode == 78
    assert "TENURE_DRILLS" in ran.stderr


def test_help_of_the_demo_names_what_it_leaves_alone() -> None:
    said = CliRunner().invoke(tenure, ["demo", "--help"]).output
    assert "TENURE_DATABASE_URL" in said
    assert "left alone" in said
