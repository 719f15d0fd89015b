"""`manage.py tenure …`: every command of Tenure, on the database that Django has."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from .....cli import main
from .....errors import TenureError, reached_by
from ... import conf

WITH_INBOX = ("worker", "dev")
INBOX = "tenure.contrib.django.inbox:inbox"


class Command(BaseCommand):
    """All that stands after `tenure` is for Tenure, but for --database first."""

    help = "Tenure's own commands on Django's database, e.g. manage.py tenure worker, manage.py tenure rows."
    requires_system_checks: list[str] = []  # noqa: RUF012 - so it is in Django

    def add_arguments(self, parser: Any) -> None:
        """For call_command, which takes them one by one."""
        parser.add_argument("words", nargs="*")

    def run_from_argv(self, argv: list[str]) -> None:
        """From a terminal."""
        self._run(argv[0], argv[2:])

    def print_help(self, prog_name: str, subcommand: str) -> None:
        """`manage.py help tenure`."""
        self._run(prog_name, ["--help"])

    def handle(self, *args: Any, **options: Any) -> None:
        """From code."""
        self._run("manage.py", options["words"])

    def _run(self, prog: str, words: list[str]) -> None:
        try:
            using, words = _database(words)
            _prepare(using)
            elsewhere = "" if using == conf.alias() else f" --database {using}"
            reached_by(f"manage.py tenure{elsewhere}", f"manage.py migrate tenure{elsewhere}")
            words = _with_inbox(words)
        except TenureError as error:
            self.stderr.write(f"tenure: {error}")
            sys.exit(error.exit_code)
        sys.argv = [f"{prog} tenure", *words]
        main()


def _database(words: list[str]) -> tuple[str, list[str]]:
    """The database that --database names, which must come first; else the one of the settings."""
    if words[:1] == ["--database"]:
        if len(words) < 2:
            raise CommandError("--database needs a name of DATABASES, e.g. --database default")
        return words[1], words[2:]
    if words and words[0].startswith("--database="):
        return words[0].partition("=")[2], words[1:]
    return conf.alias(), words


def _prepare(using: str) -> None:
    """What Django knows, where our commands look for it."""
    conf.export()
    os.environ["TENURE_DATABASE_URL"] = conf.address(using)


def _with_inbox(words: list[str]) -> list[str]:
    """`worker` and `dev` without an inbox run all that the project has: its handlers and its tasks, in their queues."""
    if not words or words[0] not in WITH_INBOX or (len(words) > 1 and not words[1].startswith("-")):
        return words
    if "--help" not in words and "-h" not in words:
        from ...inbox import queues

        if not any(word.startswith("--queues") for word in words):
            os.environ.setdefault("TENURE_QUEUES", ",".join(queues()))
    return [words[0], INBOX, *words[1:]]
