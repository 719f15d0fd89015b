"""The embedded server has a database for each project, and its version is chosen once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from faces import embedded_tools as tools
from tenure import embedded
from tenure.cli import dev
from tenure.cli.database import Database
from tenure.embedded import choice
from tenure.embedded.binaries import Binaries
from tenure.embedded.project import Project, ensure, project
from tenure.errors import BadSettings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
TENURE = [sys.executable, "-c", "from tenure.cli import main; main()"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty TENURE_HOME, for this process and those that it starts."""
    for name in [name for name in os.environ if name.startswith(("PG", "TENURE_", "DATABASE_URL"))]:
        if not name.startswith("TENURE_TEST_"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    monkeypatch.setenv("TENURE_HOME", str(home))
    with tools.ended_after(home):
        yield home


def run(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        [*TENURE, *words], cwd=folder, env={**os.environ, **more}, capture_output=True, text=True, timeout=120
    )


# -- whose rows


def test_two_projects_do_not_see_each_others_rows(home: Path, tmp_path: Path) -> None:
    """They shared one database and schema: project b ran project a's row."""
    a, b = tmp_path / "a", tmp_path / "b"
    for each in (a, b):
        assert run(each, "migrate").returncode == 0
    assert run(a, "enqueue", "receipt").returncode == 0
    assert len(json.loads(run(a, "rows", "--json").stdout)["rows"]) == 1
    assert json.loads(run(b, "rows", "--json").stdout)["rows"] == []
    shared = run(b, "rows", "--json", TENURE_PROJECT=project(a).database)
    assert len(json.loads(shared.stdout)["rows"]) == 1, "another project's rows, by its name"


def test_the_url_of_a_project_is_that_of_a_database_whose_own_tables_are_not_among_ours(
    home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    assert run(tmp_path, "pg", "start").returncode == 0
    url = run(other, "pg", "url").stdout.strip()
    assert run(other, "migrate", TENURE_DATABASE_URL=url).returncode == 0
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE TABLE orders (id int)")
        found = conn.execute("SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = 'orders'")
        assert found.fetchall() == [("public",)]
    assert run(tmp_path, "pg", "stop").returncode == 0


def test_the_banner_names_the_project_and_the_rows_of_before(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "shop"
    work.mkdir()
    monkeypatch.chdir(work)
    with embedded.attach(database=embedded.SHARED, linger_seconds=0.2) as server:
        with psycopg.connect(server.url, autocommit=True) as conn:
            conn.execute("CREATE SCHEMA tenure")
            for table in ("live", "dead"):
                conn.execute(f"CREATE TABLE tenure.{table} AS SELECT FROM generate_series(1, 3)")
        with embedded.attach(linger_seconds=0.2) as ours:
            whose, *told_of = dev._whose(Database(ours.url, "tenure", "embedded", "", project=ours.project))
        with psycopg.connect(server.url, autocommit=True) as conn:
            conn.execute("DELETE FROM tenure.live")
            conn.execute("DELETE FROM tenure.dead")
        with embedded.attach(linger_seconds=0.2) as ours:
            again = list(dev._whose(Database(ours.url, "tenure", "embedded", "", project=ours.project)))
    assert again == [whose], "nothing is left of them"
    assert str(work) in whose
    assert project(work).database in whose
    told = "\n".join(told_of)
    assert "6 rows of 0.1.0" in told
    assert "`TENURE_PROJECT=tenure tenure rows` shows them" in told


def test_pg_lists_the_databases_with_their_folders(home: Path, tmp_path: Path) -> None:
    work = tmp_path / "my-shop"
    assert run(work, "migrate").returncode == 0
    with embedded.attach(database=embedded.SHARED, linger_seconds=0.2):
        said = run(work, "pg", "status")
        url = run(work, "pg", "url").stdout
    assert str(work) in said.stdout
    assert f"/{project(work).database}?" in url
    assert project(work).database.startswith("my_shop_")


def test_pg_tells_that_the_server_runs_also_where_the_database_is_not_made_yet(home: Path, tmp_path: Path) -> None:
    with embedded.attach(database=embedded.SHARED, linger_seconds=0.2):
        said = run(tmp_path / "new-shop", "pg", "status")
    assert (said.returncode, said.stderr) == (0, "")
    assert "running until its last user leaves" in said.stdout


def test_a_project_is_the_nearest_folder_that_looks_like_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENURE_PROJECT", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "pyproject.toml").touch()
    inner = tmp_path / "repo" / "src" / "deep"
    inner.mkdir(parents=True)
    assert project(inner).source == str(inner), "what lies in the home folder is not one project"
    (tmp_path / "repo" / ".git").mkdir()
    assert project(inner) == project(tmp_path / "repo")
    assert project(tmp_path / "repo").source == str(tmp_path / "repo")
    (inner / "tenure.toml").touch()
    assert project(inner).source == str(inner)


def test_strange_folders_have_plain_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENURE_PROJECT", raising=False)
    names = [project(tmp_path / name).database for name in ("Über Shop", "9", "x" * 200, "ß")]
    assert all(len(name) <= 63 and name.isascii() and name[0].isalpha() for name in names), names
    assert len(set(names)) == 4
    for bad in ("Shop", "9x", "postgres", "a-b", "x" * 64):
        monkeypatch.setenv("TENURE_PROJECT", bad)
        with pytest.raises(BadSettings, match=r"TENURE_PROJECT.*is not a plain name"):
            project()


def test_many_who_make_the_database_at_once_all_have_it(home: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with embedded.attach(database=embedded.SHARED, linger_seconds=0.2) as server, ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: ensure(server.url, Project(f"p{n % 2}", "folder")), range(8)))
        assert len(set(made)) == 2
        assert [each.database for each in embedded.known(server.url)] == ["p0", "p1", "tenure"]


# -- the version


def programs(*majors: int) -> list[Binaries]:
    return [Binaries(Path(f"/pg/{major}/bin"), major, f"{major}.1", "system") for major in majors]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Binaries]]:
    """The programs that are installed, for the test to change."""
    found: list[Binaries] = programs(15)
    monkeypatch.setattr(choice, "all_programs", lambda: iter(found))
    monkeypatch.setattr(choice, "binaries", lambda: found[0])
    return iter([found])


def test_a_version_is_chosen_once_and_kept_when_a_newer_one_is_installed(
    tmp_path: Path, here: Iterator[list[Binaries]]
) -> None:
    """With [dev] installed, the rows seemed gone: they were in pg15, and it looked in pg18."""
    (found,) = here
    folder, chosen = choice.locate(tmp_path)
    assert (folder, chosen.major) == (tmp_path / "pg15", 15)
    choice.keep(tmp_path, chosen.major)
    found[:] = programs(18, 15)
    assert choice.locate(tmp_path)[0] == tmp_path / "pg15"
    choice.choose(tmp_path, 18)
    choice.keep(tmp_path, 15)
    assert choice.locate(tmp_path)[0] == tmp_path / "pg18", "until somebody chooses another"


def test_a_folder_of_0_1_0_keeps_the_version_that_has_its_rows(tmp_path: Path, here: Iterator[list[Binaries]]) -> None:
    (found,) = here
    found[:] = programs(18, 15)
    (tmp_path / "pg15" / "data").mkdir(parents=True)
    (tmp_path / "pg16").mkdir()
    assert choice.locate(tmp_path)[0] == tmp_path / "pg15"
    (tmp_path / "pg18" / "data").mkdir(parents=True)
    assert choice.locate(tmp_path)[0] == tmp_path / "pg18", "as it went before"


def test_a_folder_of_another_version_is_refused_in_one_sentence_with_the_next_step(
    tmp_path: Path, here: Iterator[list[Binaries]]
) -> None:
    (found,) = here
    choice.choose(tmp_path, 15)
    found[:] = programs(18)
    with pytest.raises(BadSettings) as refused:
        choice.locate(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path} holds a PostgreSQL 15, and the programs here are 18.1 (system): install PostgreSQL 15 or "
        f"name it with TENURE_PG_BIN=/its/bin, or begin anew with `tenure pg choose 18`, which keeps "
        f"the rows in {tmp_path}/pg15"
    )
    (tmp_path / choice.NOTE).write_text("newest")
    with pytest.raises(BadSettings, match=r"version cannot be read .*like 18"):
        choice.locate(tmp_path)


def test_pg_choose_says_where_the_rows_of_before_are(home: Path, tmp_path: Path) -> None:
    major = embedded.binaries().major
    choice.choose(home, 14)
    said = run(tmp_path / "w", "pg", "choose", str(major))
    assert said.returncode == 0, said.stderr
    assert f"{major} from now on" in said.stderr
    assert "the rows of 14: `tenure pg choose 14` goes back" in said.stderr
    refused = run(tmp_path / "w", "pg", "choose", "9")
    assert refused.returncode == 78
    assert refused.stderr.startswith("tenure: PostgreSQL 9 is not here, only ")
