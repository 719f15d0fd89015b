"""`tenure worker` at the terminal: what it loads, what it refuses, and that its process ends whatever happens."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner

import warm
from tenure import settings
from tenure.cli import main
from tenure.cli import schedules as schedules_command
from tenure.cli import sql as sql_command
from tenure.cli import tail as tail_command
from tenure.errors import BAD_SETTINGS, BUG, NO, USAGE, BadSettings
from tenure.events import JobFailed
from tenure.telemetry.log import words
from tenure.verbs import schedules
from tenure.verbs.schedules import Schedule
from world import World

SHOP = 'from tenure import Inbox\n\ninbox = Inbox()\n\n\n@inbox.handler("greet")\ndef greet(name: str) -> None: ...\n'
LOADED = "slots=0 must be between 1 and 10000"  # what --slots 0 is told, once the inbox is there
TENURE = "from tenure.cli import main; main()"
NOWHERE = "postgresql://tenure@127.0.0.1:1/tenure"


def tenure(folder: Path, *arguments: str, program: str = TENURE, **env: str) -> subprocess.CompletedProcess[str]:
    """The command as a real process in this folder; it must end."""
    env = {**os.environ, "TENURE_DATABASE_URL": NOWHERE, "PYTHONPATH": os.pathsep.join(sys.path), **env}
    if program == TENURE:
        return warm.run(*arguments, env=env, cwd=folder)
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def refused(folder: Path, *arguments: str, **env: str) -> str:
    """What it is refused with: one sentence, and the exit code of bad settings."""
    answer = tenure(folder, "worker", *arguments, **env)
    assert answer.returncode == BAD_SETTINGS, answer.stderr
    assert answer.stderr.startswith("tenure: ")
    assert answer.stderr.count("\n") == 1
    return answer.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small project: a module, one in a package that imports its neighbour, and one below a plain folder."""
    (tmp_path / "shop.py").write_text(SHOP)
    for place in ("pack", "loose"):
        (tmp_path / place).mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "pack" / "names.py").touch()
    (tmp_path / "pack" / "jobs.py").write_text(f"from . import names\n{SHOP}")
    (tmp_path / "loose" / "shop_two.py").write_text(f"import shop\n{SHOP}")
    return tmp_path


@pytest.mark.parametrize(
    "app", ["shop:inbox", "shop.py:inbox", "./shop.py:inbox", "./shop:inbox", "pack.jobs:inbox", "./pack/jobs.py:inbox",
            "loose/shop_two.py:inbox"]
)  # fmt: skip
def test_an_inbox_is_found_by_module_and_by_file(folder: Path, app: str) -> None:
    assert LOADED in refused(folder, app, "--slots", "0")


def test_an_inbox_is_found_from_anywhere_by_its_whole_path(folder: Path) -> None:
    elsewhere = folder / "loose"
    for app in ("shop.py", "pack/jobs.py"):
        assert LOADED in refused(elsewhere, f"{folder}/{app}:inbox", "--slots", "0")
    assert LOADED in refused(elsewhere, "../shop.py:inbox", "--slots", "0")
    assert LOADED in refused(folder / "pack", "jobs.py:inbox", "--slots", "0")


@pytest.mark.parametrize(
    ("app", "says"),
    [
        (".:inbox", "must name a Python file"),
        ("..:inbox", "must name a Python file"),
        (
            "/nowhere/app.py:inbox",
            r"must name a Python file, and /nowhere/app.py is none: write FILE:INBOX, e.g. ./shop.py:inbox",
        ),
        ("./pack:inbox", "must name a Python file"),
        ("shop", "'shop' must name an inbox: write MODULE:INBOX"),
        ("nothing:inbox", "No module named 'nothing' (looked in "),
        ("shop.jobs:inbox", "'shop' is not a package"),
        ("shop:outbox", "is not there: did you mean shop:inbox?"),
    ],
)
def test_where_there_is_none_it_says_so(folder: Path, app: str, says: str) -> None:
    assert says in refused(folder, app)


def test_a_file_behind_a_module_of_the_same_name_is_not_taken_for_it(folder: Path) -> None:
    (folder / "loose" / "json.py").write_text(SHOP)
    said = refused(folder / "pack", f"{folder}/loose/json.py:inbox")
    assert "is hidden by another module 'json'" in said


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("x = 1\ndef f(:\n", "SyntaxError: invalid syntax (theirs.py, line 2) ({file}:2: def f(:)"),
        ("import os\nos.environ['NOT_SET']\n", "KeyError: 'NOT_SET' ({file}:2: os.environ['NOT_SET'])"),
        ("import not_installed\n", "No module named 'not_installed' ({file}:1: import not_installed)"),
        ("raise RuntimeError('two\\nlines')\n", "RuntimeError: two lines ({file}:1: raise RuntimeError("),
        ("raise SystemExit(0)\n", "SystemExit: 0 ({file}:1: raise SystemExit(0))"),
        (SHOP.replace('"greet"', '"greet", queue=""'), "queue='' has 0 bytes: it must have 1 to 128 ({file}:6: @inbox"),
    ],
)
def test_an_error_in_their_module_is_theirs_and_named_with_its_line(tmp_path: Path, source: str, says: str) -> None:
    (tmp_path / "theirs.py").write_text(source)
    for app in ("theirs:inbox", "./theirs.py:inbox"):
        said = refused(tmp_path, app)
        assert f"{app!r} cannot be loaded: " in said
        assert says.format(file=tmp_path / "theirs.py") in said


def test_a_session_url_is_checked_like_any_other(folder: Path) -> None:
    assert "--session-url ('garbage') must be a database address" in refused(
        folder, "shop:inbox", "--session-url=garbage"
    )
    assert "--session-url is empty" in refused(folder, "shop:inbox", "--session-url=")
    secret = folder / "secret"
    secret.write_text("postgresql://u:s3cret@h:p/x\n")
    said = refused(folder, "shop:inbox", TENURE_SESSION_URL_FILE=str(secret))
    assert "TENURE_SESSION_URL" in said
    assert "s3cret" not in said


def test_a_session_url_comes_from_its_flag_its_variable_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{NOWHERE}\n")
    file = {"TENURE_SESSION_URL_FILE": str(tmp_path / "secret")}
    assert settings.session_url("host=a", file) == "host=a"
    assert settings.session_url(None, {"TENURE_SESSION_URL": "host=b", **file}) == "host=b"
    assert settings.session_url(None, file) == NOWHERE
    assert settings.session_url(None, {}) is None
    with pytest.raises(BadSettings, match=r"TENURE_SESSION_URL_FILE names .* cannot be read"):
        settings.session_url(None, {"TENURE_SESSION_URL_FILE": str(tmp_path / "none")})


def test_a_port_that_cannot_be_is_a_usage_error(folder: Path) -> None:
    assert tenure(folder, "worker", "shop:inbox", "--health-port", "99999").returncode == USAGE


def test_a_queue_that_no_handler_has_is_told(folder: Path) -> None:
    said = "tenure: no handler of this app has the queue 'nosuch': there are default\n"
    told = tenure(folder, "worker", "shop:inbox", "--queues", "nosuch,default", "--slots", "0").stderr
    assert (told.startswith(said), LOADED in told, told.count("\n")) == (True, True, 2)
    as_json = tenure(folder, "worker", "shop:inbox", "--queues", "nosuch", "--slots", "0", "--json").stderr
    assert '"level": "warning", "event": "queue_without_handler", "queue": "nosuch"' in as_json
    assert "no handler" not in tenure(folder, "worker", "shop:inbox", "--queues", "default", "--slots", "0").stderr


@pytest.mark.parametrize("face", ["worker", "dev"])
@pytest.mark.parametrize("names", ["", " "])
def test_queues_without_a_name_are_a_usage_error(folder: Path, face: str, names: str) -> None:
    answer = tenure(folder, face, "shop:inbox", "--queues", names)
    assert answer.returncode == USAGE
    assert "--queues must name a queue: write e.g. --queues mail,reports, or leave it out" in answer.stderr


RUN = """
import threading
import psycopg
from tenure.cli import main
from tenure.worker.worker import Worker

def run(self, **_):
    threading.Thread(target=threading.Event().wait).start()  # a handler that never ends
    raise {error}

Worker.run = run
main()
"""


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        ("RuntimeError('boom')", BUG, "tenure: this is a bug in Tenure (RuntimeError: boom)"),
        ("SystemExit(0)", BUG, "tenure: this is a bug in Tenure (SystemExit: 0)"),
        ("psycopg.errors.UndefinedTable('live is gone')", BAD_SETTINGS, "tenure: live is gone: run `tenure migrate`"),
    ],
)
def test_a_worker_that_fails_ends_its_process_whatever_its_handlers_do(
    folder: Path, error: str, code: int, says: str
) -> None:
    answer = tenure(folder, "worker", "shop:inbox", program=RUN.format(error=error))
    assert (answer.returncode, answer.stdout) == (code, "")
    assert says in answer.stderr
    assert ("Traceback" in answer.stderr) == (code == BUG)


def test_a_worker_that_nobody_listens_to_ends_as_well(folder: Path) -> None:
    broken = "import os; os.close(2); os.dup2(os.pipe()[1], 2); os.closerange(3, 9)\n"
    assert (
        tenure(folder, "worker", "shop:inbox", program=broken + RUN.format(error="ValueError('boom')")).returncode
        == BUG
    )


def test_a_bug_ends_with_its_own_exit_code_and_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(**_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(sql_command.command, "callback", fails)
    monkeypatch.setattr(sys, "argv", ["tenure", "sql", "claim"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == BUG
    assert said.startswith("tenure: this is a bug in Tenure (RuntimeError: boom): please report it")
    assert "Traceback" in said


def test_a_schedule_can_be_removed(world: World) -> None:
    world.run(schedules.plan(Schedule("tidy", "@hourly", "tidy_up")))
    arguments = ["remove", "tidy", "--yes", "--database-url", world.url, "--schema", world.schema]
    first, again = (CliRunner().invoke(schedules_command.command, arguments) for _ in range(2))
    assert (first.exit_code, first.output) == (0, "removed tidy\n")
    assert world.run(schedules.schedules()) == []
    assert (again.exit_code, again.stderr) == (
        NO,
        "tenure: there is no schedule 'tidy': `tenure schedules` lists them\n",
    )


HOSTILE = ["\x1b[2Jgone", "a b\x1b]0;title\x07", "\x9b31m", "\x7f", "right\u202eleft", "lone\udc80"]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_others_wrote_does_not_steer_the_terminal(text: str) -> None:
    event = JobFailed("w", UUID(int=1), 1, text, "default", 0.5, text)
    fields = event.fields()
    for line in (
        words(datetime.now(UTC), event, fields),
        tail_command.words(fields),
        tail_command.words({"event": text}),
    ):
        assert line.isprintable(), repr(line)


def test_what_can_be_read_is_printed_as_it_is() -> None:
    line = tail_command.words({"event": "job_failed", "kind": "grüße_🚀", "error": "es ging schief\nin Zeile zwei"})
    assert line.endswith('job_failed           kind=grüße_🚀 error="es ging schief"')
