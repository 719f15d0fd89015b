"""Tenure in a Django project: migrations, commands, checks, a worker, and all that Django expects of a task backend."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from contrib.django_site import DJANGO6, Site, site_on
from guarantees.facts import until
from servers import available
from tenure.postgres import migrate


@pytest.fixture(scope="module")
def site(started: Callable[[str], str]) -> Iterator[Site]:
    """The project, migrated by `manage.py migrate`."""
    with site_on(started(available()[0]), f"site{os.getpid()}") as site:
        done = site.manage("migrate")
        assert done.returncode == 0, done.stderr
        assert f"Applying tenure.{migrate.newest():04}_" in done.stdout
        yield site


def test_migrate_applies_the_numbered_files_and_knows_them_by_name(site: Site) -> None:
    applied = site.sql("SELECT version, name, checksum FROM tenure.migrations ORDER BY 1")
    assert applied == [(each.version, each.name, each.checksum) for each in migrate.known()]
    listed = site.manage("showmigrations", "tenure").stdout
    assert listed.count("[X]") == migrate.newest()
    # A migration of theirs that depends on one of ours was applied in the same run: the search path was theirs again.
    assert site.sql("SELECT to_regclass('public.shop_order')::text") == [("shop_order",)]


def test_makemigrations_finds_nothing_to_do(site: Site) -> None:
    assert site.manage("makemigrations", "--check", "--dry-run").stdout == "No changes detected\n"


def test_a_database_that_tenure_has_migrated_is_taken_over(site: Site) -> None:
    with site_on(site.url, f"{site.name}_taken") as other:
        with psycopg.connect(other.address, autocommit=True) as conn:
            migrate.apply(conn, to=3)
        done = other.manage("migrate", "tenure", "0005")
        assert done.returncode == 0, done.stderr
        assert other.sql("SELECT max(version) FROM tenure.migrations") == [(5,)]


def test_sqlmigrate_prints_the_file_for_a_person_who_runs_it(site: Site) -> None:
    with site_on(site.url, f"{site.name}_printed") as other, psycopg.connect(other.address) as conn:
        printed = other.manage("sqlmigrate", "tenure", "0001").stdout
        assert printed.count("\nCOMMIT;") == 1
        conn.execute(printed.encode())
        conn.commit()
        assert other.sql("SELECT version, name FROM tenure.migrations") == [(1, "inbox")]


@pytest.mark.parametrize("python", [Path(sys.executable), DJANGO6], ids=["django 5", "django 6"])
def test_what_django_expects_of_a_task_backend_holds_and_its_test_cases_can_run_handlers(
    site: Site, python: Path
) -> None:
    if not python.exists():
        pytest.skip("Django 6 needs Python 3.12: `tools/django6` finds one and makes .django6")
    done = site.manage("test", "--keepdb", "--noinput", python=python)
    assert done.returncode == 0, done.stderr
    assert "Ran 50 tests" in done.stderr


def test_a_worker_of_the_project_runs_its_handlers_and_its_tasks(site: Site) -> None:
    site.sql("TRUNCATE tenure.archive, tenure.results")  # of the tests that commit
    made = site.manage(
        "shell",
        "-c",
        "from django.db import connection, transaction\n"
        "from expected.tasks import calculate_meaning_of_life, noop_task_async\n"
        "from shop.jobs import send_receipt\n"
        "from shop.models import Order\n"
        "with transaction.atomic():\n"
        "    send_receipt.enqueue(connection, order_id=Order.objects.create().pk)\n"
        "    calculate_meaning_of_life.using(queue_name='mail').enqueue()\n"
        "    noop_task_async.enqueue(1)\n",
    )
    assert made.returncode == 0, made.stderr
    worker = site.start("tenure", "worker")
    try:
        until(lambda: site.sql("SELECT count(*) FROM tenure.archive")[0][0] == 3, "all three are completed")
        worker.send_signal(signal.SIGTERM)
        told = worker.communicate(timeout=90)[1]
        assert worker.returncode == 0, told
    finally:
        worker.kill()
    assert site.sql("SELECT count(*) FROM shop_receipt") == [(1,)]
    kinds = {"send_receipt", "expected.tasks.calculate_meaning_of_life", "expected.tasks.noop_task_async"}
    assert {kind for (kind,) in site.sql("SELECT kind FROM tenure.archive")} == kinds
    assert site.sql("SELECT value FROM tenure.results WHERE value::text <> 'null'") == [(42,)]


def test_a_command_works_on_the_database_of_django_and_one_that_is_not_there_is_named(site: Site) -> None:
    assert site.manage("tenure", "--database", "default", "queues", "--json").stdout.startswith("{")
    refused = site.manage("tenure", "--database=nowhere", "queues")
    assert refused.returncode == 78
    assert refused.stderr == "tenure: there is no database 'nowhere' in DATABASES: choose from default\n"


SENTENCES = {
    '{"INBX": "shop.jobs:inbox"}': "TENURE has the unknown name 'INBX': did you mean 'INBOX'?",
    '{"INBOX": "shop.jobs"}': "TENURE['INBOX']='shop.jobs' must be MODULE:INBOX, e.g. 'shop.jobs:inbox'",
    '{"DATABASE": "other"}': "there is no database 'other' in DATABASES: choose from default",
    '{"SCHEMA": "a b"}': "schema 'a b' is not a plain name: use a-z, 0-9 and _, at most 63, no digit first",
    '["INBOX"]': "TENURE=['INBOX'] must be a dict, e.g. {'INBOX': 'shop.jobs:inbox'}",
}


@pytest.mark.parametrize("given", SENTENCES)
def test_a_system_check_says_in_one_sentence_what_is_wrong(site: Site, given: str) -> None:
    found = site.manage("check", "--tag", "tenure", SITE_TENURE=given)
    assert found.returncode == 1
    assert SENTENCES[given] in found.stderr
    assert "Traceback" not in found.stderr


def test_a_check_before_a_deployment_finds_a_schema_that_was_not_migrated(site: Site) -> None:
    def found(site: Site) -> str:
        return site.manage("check", "--deploy", "--database", "default", "--tag", "database").stderr

    with site_on(site.url, f"{site.name}_empty") as empty:
        assert "schema 'tenure' is missing: run `manage.py migrate tenure`" in found(empty)
        refused = empty.manage("tenure", "rows")
        assert refused.stderr == "tenure: schema 'tenure' is missing: run `manage.py migrate tenure`\n"
    assert "migrate" not in found(site)


def test_an_inbox_that_cannot_be_loaded_is_told_in_one_sentence(site: Site) -> None:
    told: subprocess.CompletedProcess[str] = site.manage("tenure", "worker", SITE_TENURE='{"INBOX": "shop.nope:inbox"}')
    assert told.returncode == 78
    assert told.stderr.startswith("tenure: 'shop.nope:inbox' cannot be loaded: ModuleNotFoundError")
    assert told.stderr.count("\n") == 1
