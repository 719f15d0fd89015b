"""Settings: flags before variables before the file before defaults; each value knows who said it; no typo passes."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import warm
from tenure import settings
from tenure.errors import BAD_SETTINGS, BadSettings
from tenure.settings import DEFAULTS, KNOWN, everything, find, load, number, settings_file, whole
from tenure.worker.config import Terms

URL = "postgresql://ann@db.example:5432/shop"
OTHER = "postgresql://bob@other.example/shop"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and nothing said in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("TENURE_", "PG")) or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    return tmp_path


def write(text: str, name: str = "tenure.toml") -> None:
    Path(name).write_text(text)


# -- who goes first


def test_a_flag_goes_before_a_variable_before_the_file_before_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find("TENURE_SLOTS") == ("20", "default")
    write("slots = 30")
    assert find("TENURE_SLOTS") == ("30", "tenure.toml")
    monkeypatch.setenv("TENURE_SLOTS", "40")
    assert find("TENURE_SLOTS") == ("40", "TENURE_SLOTS")
    assert find("TENURE_SLOTS", 50, "--slots") == ("50", "--slots")


def test_a_zero_given_as_a_flag_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_HEALTH_PORT", "8901")
    assert find("TENURE_HEALTH_PORT", 0, "--health-port") == ("0", "--health-port")


def test_an_empty_variable_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_SCHEMA", "")
    write('schema = "jobs"')
    assert load().schema == "jobs"


@pytest.mark.parametrize("name", ["TENURE_DATABASE_URL", "DATABASE_URL", "PGHOST", "PGSERVICE"])
def test_whatever_the_environment_says_of_the_database_goes_before_the_file(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write(f'database_url = "{URL}"')
    assert (load().database_url, load().database_from) == (URL, "tenure.toml")
    monkeypatch.setenv(name, OTHER if "URL" in name else "db")
    assert load().database_from == name


def test_without_a_word_the_embedded_server_is_used() -> None:
    assert (load().database_url, load().database_from) == (None, "embedded")


def test_a_secret_is_read_from_the_file_that_is_named_for_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "secret").write_text(f"{URL}\n")
    monkeypatch.setenv("TENURE_DATABASE_URL_FILE", str(here / "secret"))
    assert (load().database_url, load().database_from) == (URL, "TENURE_DATABASE_URL_FILE")
    monkeypatch.delenv("TENURE_DATABASE_URL_FILE")
    write('database_url_file = "secret"')
    assert (load().database_url, load().database_from) == (URL, "database_url_file in tenure.toml")


# -- the file


def test_the_table_in_pyproject_is_read_and_tenure_toml_goes_before_it() -> None:
    write('[project]\nname = "shop"\n[tool.tenure]\nschema = "jobs"\nslots = 7\n', "pyproject.toml")
    assert find("TENURE_SCHEMA") == ("jobs", "[tool.tenure] in pyproject.toml")
    write('schema = "other"')
    assert find("TENURE_SCHEMA") == ("other", "tenure.toml")
    assert find("TENURE_SLOTS") == ("20", "default")  # one file speaks, not half of each


@pytest.mark.parametrize("text", ["", "[project]\nname = 'shop'", "[tool.tenured]\nx = 1"])
def test_a_pyproject_without_the_table_says_nothing(text: str) -> None:
    write(text, "pyproject.toml")
    assert settings_file() == ("", {}) or settings_file()[1] == {}


def test_numbers_and_lists_are_taken_as_they_are_written() -> None:
    write('lease_seconds = 45.5\nslots = 7\nqueues = ["mail=3", "reports"]')
    assert number("TENURE_LEASE_SECONDS") == 45.5
    assert whole("TENURE_SLOTS") == 7
    assert find("TENURE_QUEUES") == ("mail=3,reports", "tenure.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("databse_url = 'x'", "unknown setting 'databse_url' in tenure.toml: did you mean database_url?"),
        ("lease_second = 9", "did you mean lease_seconds?"),
        ("TENURE_SLOTS = 9", "unknown setting 'TENURE_SLOTS' in tenure.toml"),
        ("[tool.tenure]\nslots = 9", "unknown setting 'tool' in tenure.toml"),
        ("slots = true", "slots in tenure.toml is True: it must be text or a number"),
        ("slots = {a = 1}", "it must be text or a number"),
        ("slots = [1]", "it must be text or a number"),
        ("slots =", "tenure.toml of the working directory is not TOML: Invalid value"),
        ("schema = 'A B'", "schema 'A B' is not a plain name"),
        ("database_url = 'nonsense'", "tenure.toml ('nonsense') must be a database address"),
        ("database_url_file = 'missing'", "database_url_file in tenure.toml names 'missing', which cannot be read"),
    ],
)
def test_what_the_file_cannot_mean_is_refused_in_a_sentence(text: str, says: str) -> None:
    write(text)
    with pytest.raises(BadSettings) as refused:
        _ = (load(), whole("TENURE_SLOTS"))
    assert says in str(refused.value)


def test_a_file_that_is_not_text_is_refused() -> None:
    Path("tenure.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadSettings, match=r"tenure\.toml of the working directory cannot be read: it is not UTF-8"):
        load()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("TENURE_SLOTS", "many", "TENURE_SLOTS='many' must be a number: correct it in TENURE_SLOTS"),
        ("TENURE_SLOTS", "2.5", "TENURE_SLOTS=2.5 must be a whole number"),
        ("TENURE_SLOTS", "inf", "must be a whole number"),
        ("TENURE_SLOTS", "nan", "must be a whole number"),
    ],
)
def test_a_number_that_is_none_names_its_source(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(BadSettings) as refused:
        whole(name)
    assert says in str(refused.value)


def test_an_unknown_variable_is_an_error_with_the_nearest_spelling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_LEASE_SECOND", "9")
    with pytest.raises(BadSettings, match=r"unknown setting TENURE_LEASE_SECOND: did you mean TENURE_LEASE_SECONDS\?"):
        load()


def test_defaults_are_those_a_worker_has_by_itself() -> None:
    own = {field.name: field.default for field in dataclasses.fields(Terms)}
    for name in ("slots", "lease_seconds", "drain_seconds", "poll_seconds", "grace_seconds"):
        assert float(DEFAULTS[f"TENURE_{name.upper()}"]) == own[name]
    assert set(DEFAULTS) <= set(KNOWN)


# -- shown


def test_every_setting_is_shown_with_its_source_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://ann:s3cret@db/shop?sslpassword=s3cret")
    monkeypatch.setenv("TENURE_SESSION_URL", "host=db password='s3 cret' user=ann")
    for name in KNOWN:
        if settings.masked(name, "x") == "***":
            monkeypatch.setenv(name, "s3cret")
    shown = dict(everything())
    assert set(shown) == set(KNOWN)
    assert shown["TENURE_DATABASE_URL"] == ("postgresql://ann:***@db/shop?sslpassword=***", "DATABASE_URL")
    assert shown["TENURE_SCHEMA"] == ("tenure", "default")
    assert shown["TENURE_HOME"] is None
    assert "s3" not in str(shown)


def _tenure(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "PYTHONPATH": os.pathsep.join(sys.path),
        **env,
    }
    return warm.run(*arguments, env=environ)


def test_doctor_shows_the_settings_and_where_each_came_from() -> None:
    write('lease_seconds = 45\ndatabase_url = "postgresql://ann:s3cret@db/shop"')
    answer = _tenure("doctor", "--settings", "--json", TENURE_SLOTS="3")
    assert (answer.returncode, answer.stderr) == (0, "")
    found = {each["name"]: (each["value"], each["source"]) for each in json.loads(answer.stdout)["settings"]}
    assert found["TENURE_SLOTS"] == ("3", "TENURE_SLOTS")
    assert found["TENURE_LEASE_SECONDS"] == ("45", "tenure.toml")
    assert found["TENURE_DATABASE_URL"] == ("postgresql://ann:***@db/shop", "tenure.toml")
    assert found["TENURE_DRAIN_SECONDS"] == ("25", "default")
    plain = _tenure("doctor", "--settings", TENURE_SLOTS="3").stdout
    assert [line.split() for line in plain.splitlines() if line.startswith("TENURE_SLOTS")] == [
        ["TENURE_SLOTS", "TENURE_SLOTS", "3"]
    ]
    assert "s3cret" not in plain + answer.stdout


@pytest.mark.parametrize("command", [["doctor", "--settings"], ["sql", "claim"], ["queues"], ["worker", "app:inbox"]])
def test_every_command_refuses_a_file_it_cannot_read(command: list[str]) -> None:
    write("slot = 3")
    Path("app.py").write_text("from tenure import Inbox\ninbox = Inbox()\n@inbox.handler('k')\ndef k(job): ...\n")
    answer = _tenure(*command)
    assert answer.returncode == BAD_SETTINGS
    assert "unknown setting 'slot' in tenure.toml: did you mean slots?" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_a_worker_takes_its_numbers_from_the_file_and_refuses_those_that_contradict_each_other() -> None:
    write(f'lease_seconds = 10\ndatabase_url = "{URL}"')
    Path("app.py").write_text("from tenure import Inbox\ninbox = Inbox()\n@inbox.handler('k')\ndef k(job): ...\n")
    answer = _tenure("worker", "app:inbox")
    assert answer.returncode == BAD_SETTINGS
    assert "drain_seconds=25 must be below lease_seconds=10" in answer.stderr
    answer = _tenure("worker", "app:inbox", TENURE_SLOTS="0", TENURE_DRAIN_SECONDS="5")
    assert "slots=0 must be between" in answer.stderr


# -- nothing that is run is named by a file in the working folder


def _trap(folder: Path) -> Path:
    """Programs that leave a trace when somebody runs them."""
    folder.mkdir()
    for name in ("initdb", "postgres"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {folder}/ran\necho 'postgres (PostgreSQL) 18.0'\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("file", ["tenure.toml", "pyproject.toml"])
@pytest.mark.parametrize("word", ["pg_bin", "pg_bin_file", "home", "home_file"])
def test_a_file_in_the_working_folder_names_nothing_that_is_run(here: Path, file: str, word: str) -> None:
    trap = _trap(here / "trap")
    (here / "named").write_text(str(trap))
    table = "[tool.tenure]\n" if file == "pyproject.toml" else ""
    write(f'{table}{word} = "{"named" if word.endswith("_file") else trap}"', file)
    where = f"{'[tool.tenure] in ' if table else ''}{file}"
    name = f"TENURE_{word.removesuffix('_file').upper()}"
    for command in (["pg", "start"], ["pg", "status"], ["queues"], ["doctor", "--settings"]):
        answer = _tenure(*command)
        assert (answer.returncode, answer.stdout) == (BAD_SETTINGS, "")
        assert answer.stderr == (
            f"tenure: {word} in {where} names programs to run or the files they are run with, and whoever wrote the "
            f"folder would choose them: remove it there, and set {name} in the environment\n"
        )
    assert sorted(each.name for each in trap.iterdir()) == ["initdb", "postgres"]


@pytest.mark.parametrize("name", ["TENURE_PG_BIN", "TENURE_PG_BIN_FILE"])
def test_the_environment_may_name_them(here: Path, name: str) -> None:
    trap = _trap(here / "trap")
    (here / "named").write_text(str(trap))
    _tenure("pg", "status", **{name: str(here / "named") if name.endswith("FILE") else str(trap)})
    assert (trap / "ran").exists()


# -- bytes that are not UTF-8


@pytest.mark.parametrize("command", [["migrate"], ["queues"], ["doctor", "--settings"]])
def test_an_address_that_is_not_utf8_is_told_in_one_sentence(command: list[str]) -> None:
    for given, environ in (
        (["--database-url", os.fsdecode(b"postgresql://u\xff:s3cret@/x")], {}),
        ([], {"TENURE_DATABASE_URL": os.fsdecode(b"postgresql://u\xff:s3cret@/x")}),
    ):
        answer = _tenure(*command, *given, **environ)
        source = next(iter([*given, *environ]))
        assert answer.returncode == BAD_SETTINGS
        assert answer.stderr == (
            f"tenure: {source} is 'postgresql://u\\udcff:***@/x', which is not UTF-8: correct it there\n"
        )


def test_an_address_whose_escapes_are_not_utf8_is_no_address() -> None:
    answer = _tenure("migrate", "--database-url", "postgresql://u%ff:s3cret@db/x")
    assert answer.returncode == BAD_SETTINGS
    assert (
        answer.stderr == "tenure: --database-url must be a database address: write postgresql://user@host:5432/name\n"
    )


@pytest.mark.parametrize("command", [["pg", "status"], ["pg", "start"], ["pg", "url"], ["queues"]])
@pytest.mark.parametrize(("name", "rest"), [("TENURE_HOME", ""), ("XDG_DATA_HOME", "/tenure"), ("HOME", "/.local")])
def test_a_folder_that_is_not_utf8_is_told_in_one_sentence(
    here: Path, command: list[str], name: str, rest: str
) -> None:
    bad = os.fsdecode(os.fsencode(here) + b"/x\xff")
    answer = _tenure(*command, **{name: bad})
    assert answer.returncode == BAD_SETTINGS, answer.stderr
    assert f"{bad + rest!r}"[:-1] in answer.stderr
    assert "not UTF-8" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert not os.path.exists(os.fsencode(here) + b"/x\xff")


def test_a_working_directory_that_is_not_utf8_has_no_server_of_its_own(here: Path) -> None:
    bad = os.fsencode(here) + b"/x\xff"
    os.mkdir(bad)
    os.chdir(bad)
    answer = _tenure("pg", "--here", "start")
    assert answer.returncode == BAD_SETTINGS, answer.stderr
    assert "x\\udcff/.tenure/pg" in answer.stderr
    assert "not UTF-8: name another folder" in answer.stderr
    assert os.listdir(bad) == []


@pytest.mark.parametrize(
    ("name", "shown"), [("TENURE_QUEUES", "a\\udcff"), ("TENURE_SCHEMA", "a\\udcff"), ("TENURE_WEB_TOKEN", "***")]
)
def test_any_other_setting_that_is_not_utf8_is_refused_and_a_secret_kept(name: str, shown: str) -> None:
    value = os.fsdecode(b"a\xff")
    with pytest.raises(BadSettings) as refused:
        find(name, environ={name: value})
    assert str(refused.value) == f"{name} is '{shown}', which is not UTF-8: correct it there"
    with pytest.raises(BadSettings, match=r"^--x is"):
        find(name, value, "--x", environ={})
    assert find(name, environ={name: "€"}) == ("€", name)
