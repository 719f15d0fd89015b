"""Tenure's numbered SQL files as migrations of Django: there is no second list that could differ from the first.

Django looks for migrations with `pkgutil` along the path of the package `migrations`, and imports what it finds. The
path there is a word of ours, and this is what Python asks when it meets that word.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from django.core.management.base import CommandError
from django.db import migrations, router
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ModelState

from ...errors import TenureError
from ...postgres import migrate, run
from ...verbs.questions import ping
from . import conf

PLACE = "tenure-sql-files"
LABEL = "tenure"


def name_of(migration: migrate.Migration) -> str:
    """As Django calls it: 0012_heads_under_limits."""
    return f"{migration.version:04}_{migration.name}"


class Finder(importlib.abc.PathEntryFinder, importlib.abc.Loader):
    """Finds a module for each SQL file, and makes it."""

    def __init__(self) -> None:
        self._known = {name_of(each): each for each in migrate.known()}

    def iter_modules(self, prefix: str = "") -> Iterator[tuple[str, bool]]:
        """For pkgutil: all names; none of them is a package."""
        return ((prefix + name, False) for name in self._known)

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        """How to import one of them."""
        if fullname.rpartition(".")[2] not in self._known:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=PLACE)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """An ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill it with what Django looks for."""
        vars(module)["Migration"] = _migration(self._known[module.__name__.rpartition(".")[2]])


def hook(place: str) -> Finder:
    """For sys.path_hooks: our finder for our word, ImportError for any other."""
    if place != PLACE:
        raise ImportError
    return Finder()


def _migration(of: migrate.Migration) -> type[migrations.Migration]:
    before = [(LABEL, name_of(migrate.known()[of.version - 2]))] if of.version > 1 else []
    models = [] if before else list(_models())
    return type(
        "Migration", (migrations.Migration,), {"dependencies": before, "operations": [Apply(of.version), *models]}
    )


def _models() -> Iterator[Operation]:
    """The models of the admin, for `makemigrations` to know; they are not Django's to create."""
    from django.apps import apps

    for model in sorted(apps.get_app_config(LABEL).get_models(), key=lambda each: bool(each._meta.proxy)):
        state = ModelState.from_model(model)
        yield migrations.CreateModel(
            state.name, list(state.fields.items()), state.options, bases=state.bases, managers=state.managers
        )


class Apply(Operation):
    """Run one SQL file, on Django's connection and in its transaction; nothing to do where it was run before."""

    reversible = False

    def __init__(self, version: int) -> None:
        self.version = version

    def state_forwards(self, app_label: str, state: Any) -> None:
        """No model of Django's changes."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Run it, or print it for `manage.py sqlmigrate`."""
        conn = schema_editor.connection
        if conn.vendor != "postgresql" or not router.allow_migrate(conn.alias, app_label):
            return
        if schema_editor.collect_sql:
            text = migrate.script(conf.schema(), self.version, self.version - 1, force=True)
            schema_editor.collected_sql.append(migrate.within(text))
            return
        try:
            raw = conf.raw(conn.alias)
            run(raw, ping())  # begins Django's transaction, so that ours is a part of it
            migrate.apply(raw, conf.schema(), self.version)
        except TenureError as error:
            raise CommandError(str(error)) from error

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Never called: it is not reversible."""

    def describe(self) -> str:
        """One line for `manage.py migrate --plan`."""
        return f"Tenure's SQL file {name_of(migrate.known()[self.version - 1])}"
