"""Several inboxes by name: what --shards, TENURE_SHARDS and the settings file may say, and what they are told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import warm
from faces.test_worker_command import NOWHERE, SHOP, refused, tenure
from tenure import settings
from tenure.cli import dev
from tenure.cli.database import Database
from tenure.errors import UNREACHABLE, BadSettings
from tenure.worker.config import Terms
from world import World

TWO = f"eu={NOWHERE},us={NOWHERE}2"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small project."""
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def test_shards_are_read_from_a_flag_a_variable_or_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    expected = {"eu": NOWHERE, "us": f"{NOWHERE}2"}
    assert settings.shards(environ={}) == {}
    assert settings.shards(TWO, {}) == settings.shards(environ={"TENURE_SHARDS": TWO}) == expected
    (folder / "tenure.toml").write_text(f'[shards]\neu = "{NOWHERE}"\nus = "{NOWHERE}2"\n')
    assert settings.shards(environ={}) == expected


def test_a_variable_that_names_one_database_goes_before_the_shards_of_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "tenure.toml").write_text(f'[shards]\neu = "{NOWHERE}"\nus = "{NOWHERE}2"\n')
    (folder / "url").write_text(NOWHERE)
    for name, value in (
        ("TENURE_DATABASE_URL", NOWHERE),
        ("DATABASE_URL", NOWHERE),
        ("TENURE_DATABASE_URL_FILE", str(folder / "url")),
        ("PGHOST", "127.0.0.1"),
    ):
        assert settings.shards(environ={name: value}) == {}, name
        assert list(settings.shards(environ={name: value, "TENURE_SHARDS": TWO})) == ["eu", "us"], name
    told = tenure(folder, "worker", "shop:inbox", TENURE_DATABASE_URL=NOWHERE).stderr
    assert told.startswith("tenure: the database does not answer")
    told = tenure(folder, "rows", TENURE_DATABASE_URL=NOWHERE).stderr
    assert told.startswith("tenure: the database does not answer")
    told = tenure(folder, "rows", "--inbox", "asia", TENURE_DATABASE_URL=NOWHERE).stderr
    assert "--inbox 'asia' is not known: there are eu, us" in told, "a flag goes before both"


def test_the_worker_of_dev_has_one_database(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "tenure.toml").write_text(f'[shards]\neu = "{NOWHERE}"\nus = "{NOWHERE}2"\n')
    (folder / "shards").write_text(TWO)
    monkeypatch.setenv("TENURE_SHARDS", TWO)
    monkeypatch.setenv("TENURE_SHARDS_FILE", str(folder / "shards"))
    environ = dev._environ(Database(f"{NOWHERE}3", "tenure", "--database-url", ""))
    assert settings.shards(environ=environ) == {}
    assert settings.load(environ=environ).database_url == f"{NOWHERE}3"


def test_one_url_may_have_several_hosts() -> None:
    hosts = "postgresql://a:1,b:2/x?target_session_attrs=read-write"
    assert settings.shards(f"eu={hosts}, us={NOWHERE}", {}) == {"eu": hosts, "us": NOWHERE}


def test_passwords_of_shards_are_not_shown() -> None:
    two = "eu=postgresql://u:one@h/x,us=postgresql://u:t,wo@h/x"
    assert settings.masked("TENURE_SHARDS", two) == "eu=postgresql://u:***@h/x,us=postgresql://u:***@h/x"


SECRETS = [
    "a=postgres//u:s3cret@h/db",
    "postgres//u:s3cret@h/db",
    "a=postgresql:/u:s3cret@h/db",
    "a=host=h pasword=s3cret",
    "x:s3cret@y=postgresql://h/db",
    "a=postgresql://u@h/one,b=postgres//u:s3cret@h/db",
    "a=postgresql://u@h/one,postgres//u:s3cret@h/db",
    "a=postgresql://u:s3cret@h/one;b=postgresql://u:s3cret@h/two",
    "a=postgresql://me@corp:s3cret@h/db",
    "a=postgresql://u:s3cret@h/one,",
    "a=postgresql://u:s3cret/db",
    "a=postgresql//u:s3cret/db",
    "a=u:s3cret/db",
    "u:s3cret/db",
    "mysql://u:s3cret/db",
    "a=postgresql://h/db,u:s3cret",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_list_that_cannot_be_read_is_refused_without_its_passwords(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadSettings) as refusal:
        settings.shards(text, {})
    assert "s3cret" not in str(refusal.value)
    kept = {name: os.environ[name] for name in ("PATH", "HOME")}
    for words in (("worker", "app:inbox", "--json"), ("doctor",), ("doctor", "--settings")):
        told = warm.run(*words, env={**kept, "TENURE_SHARDS": text, "TENURE_SESSION_URL": text})
        assert "s3cret" not in told.stdout + told.stderr, words


def test_a_table_that_cannot_be_read_is_refused_without_its_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for table in (
        'shards.a = "postgres//u:s3cret@h/db"',
        'shards.a = "postgresql://u:s3cret@h/db"\nshards.b = 3',
        'shards.a = "postgresql://u:s3cret/db"',
        '[shards.a]\nhost = "h"\nsecret = "s3cret"',
        'shards = [["a", "s3cret"]]',
    ):
        (tmp_path / "tenure.toml").write_text(f"{table}\n")
        with pytest.raises(BadSettings) as refusal:
            settings.shards(None, {})
        assert "s3cret" not in str(refusal.value)


def test_terms_are_shown_without_their_addresses() -> None:
    secret = "postgresql://app:hunter2@db/shop"
    all_terms = [Terms(secret, session_url=secret), Terms(shards={"eu": secret}), Terms(citus=secret)]
    assert not any("hunter2" in repr(terms) for terms in all_terms)


def test_an_address_in_code_that_cannot_be_read_is_refused_without_its_password() -> None:
    with pytest.raises(BadSettings, match="inbox 'a' must be a database address") as refusal:
        Terms(shards={"a": "postgres//u:s3cret@h/db"})
    assert "s3cret" not in str(refusal.value)
    with pytest.raises(BadSettings, match="password and port cannot be told apart") as refusal:
        Terms(shards={"a": "postgresql://u:s3cret/db"})
    assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize("port", ["99999", "0", "5432,65536", "77777777"])
def test_a_port_that_cannot_be_is_refused_wherever_it_stands(port: str) -> None:
    hosts = ",".join(f"h{n}:{each}" for n, each in enumerate(port.split(",")))
    url, said = f"postgresql://u:s3cret@{hosts}/db", "has an impossible port: write one from 1 to 65535"
    for attempt in (
        lambda: Terms(shards={"a": url}),
        lambda: settings.shards(f"a=postgresql://h/db,b={url}", environ={}),
        lambda: settings.load(database_url=url, environ={}),
        lambda: settings.load(environ={"TENURE_DATABASE_URL": url}),
        lambda: settings.session_url(environ={"TENURE_SESSION_URL": url}),
    ):
        with pytest.raises(BadSettings, match=said) as refusal:
            attempt()
        assert not {"s3cret", port} & set(str(refusal.value).split()), "digits may be a password"
    assert settings.check_url("postgresql://h1:1,h2:65535,h3/db", "x")


@pytest.mark.parametrize("address", ["postgresql://u:s3cret/db", "postgresql://u:s3cret\udcff/db"])
def test_one_address_that_cannot_be_read_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(BadSettings) as refusal:
        settings.load(environ={"TENURE_DATABASE_URL": address})
    assert "s3cret" not in str(refusal.value)
    with pytest.raises(BadSettings) as refusal:
        settings.shards(environ={"TENURE_SHARDS": f"a={address}"})
    assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"eu={NOWHERE},", "--shards has '': each inbox must have a name and a URL"),
        (f"eu={NOWHERE},us", "--shards has 'us': each inbox must have a name and a URL"),
        ("eu=postgresql:///x?host=/tmp,us", "--shards has 'us': each inbox must have a name and a URL"),
        (f"eu={NOWHERE};us={NOWHERE}2", "--shards has 'us=…': each inbox must have a name and a URL"),
        ("eu", "--shards has 'eu': each inbox must have a name and a URL"),
        ("eu=mysql://h/x", "--shards has 'eu=mysql://h/x': each inbox must have a name and a URL"),
        (f"{NOWHERE}", "each inbox must have a name and a URL"),
        (f"eu={NOWHERE},eu={NOWHERE}2", "--shards names 'eu' twice"),
        (f"eu={NOWHERE},us={NOWHERE}", "inboxes 'eu' and 'us' are one database"),
        (f"eu={NOWHERE},us=nonsense", "--shards has 'us=nonsense': each inbox must have a name and a URL"),
        (f"eu={NOWHERE}, us=,as={NOWHERE}2", "--shards has 'us=': each inbox must have a name and a URL"),
        (f"eu={NOWHERE},us={NOWHERE}?application_name=us", "inboxes 'eu' and 'us' are one database"),
        ("eu=postgresql://a@h/x,us=postgresql://b@H:5432/x", "inboxes 'eu' and 'us' are one database"),
        (f"EU={NOWHERE}", "'EU' must be a short name"),
        (f"={NOWHERE}", "'' must be a short name"),
    ],
)
def test_wrong_shards_are_refused_with_one_sentence(text: str, told: str) -> None:
    with pytest.raises(BadSettings) as refusal:
        settings.shards(text, {})
    assert told in str(refusal.value)
    assert "eu=postgresql://…" in str(refusal.value) or "of its own" in str(refusal.value)


def test_a_worker_is_refused_wrong_shards(folder: Path) -> None:
    assert "--shards has 'eu': each inbox must have a name and a URL" in refused(folder, "shop:inbox", "--shards", "eu")


def test_shards_and_one_database_exclude_each_other(folder: Path) -> None:
    told = refused(folder, "shop:inbox", "--shards", TWO, "--database-url", NOWHERE)
    assert "--database-url and --shards: give one of them" in told
    told = refused(folder, "shop:inbox", "--shards", TWO, "--session-url", NOWHERE)
    assert "session_url cannot be given with shards" in told
    with pytest.raises(BadSettings, match="url and shards: give one of them"):
        Terms(NOWHERE, shards={"eu": NOWHERE})


def test_a_flag_for_one_database_goes_before_shards_from_elsewhere(folder: Path) -> None:
    told = tenure(folder, "worker", "shop:inbox", "--database-url", NOWHERE, TENURE_SHARDS="nonsense").stderr
    assert "the database does not answer" in told
    assert "nonsense" not in told


def test_if_no_database_answers_the_first_is_named(folder: Path) -> None:
    answer = tenure(folder, "worker", "shop:inbox", "--shards", TWO)
    assert answer.returncode == UNREACHABLE
    assert answer.stderr.startswith("tenure: inbox eu: the database does not answer")
    assert answer.stderr.count("\n") == 1


@pytest.mark.one_server
def test_an_inbox_that_is_not_migrated_is_named(folder: Path, world: World) -> None:
    told = refused(folder, "shop:inbox", "--shards", f"eu={world.url},us={NOWHERE}", "--schema", "not_there")
    assert told == "tenure: inbox eu: schema 'not_there' is missing: run `tenure migrate --schema not_there`\n"
