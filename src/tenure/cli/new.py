"""`tenure new`: write a starter app with a test and the files to deploy it; overwrite nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import click

from .. import __version__, settings, sql
from ..console.terminal import echo
from ..errors import BadSettings
from ..model.shell import quoted
from .health import PORT as HEALTH_PORT
from .serve import PORT as WEB_PORT

NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9_-]{0,38}[A-Za-z0-9])?")
STOP_SECONDS = 10  # the most a worker needs after its drain, to give rows back and exit
QUERY_INDENT = " " * 10

# What is written, from which file of the starter, and what it is for.
FILES = {
    "README.md": ("README.md", "how to run it, here and on a server"),
    "app.py": ("app.py", "the inbox, a handler with a fenced write, an enqueue in your own transaction"),
    "tests/test_app.py": ("test_app.py", "the same on a real Postgres, with a real worker"),
    "pyproject.toml": ("pyproject.toml", "what it depends on"),
    "tenure.toml": ("tenure.toml", "settings"),
    ".gitignore": ("gitignore", "what does not belong into a repository"),
    "Dockerfile": ("Dockerfile", "one image for worker, dashboard and migration"),
    ".dockerignore": ("dockerignore", "what does not belong into the image"),
    "compose.yaml": ("compose.yaml", "Postgres, migration, worker and dashboard"),
    "deploy/@name@-worker.service": ("worker.service", "systemd: a worker"),
    "deploy/@name@-serve.service": ("serve.service", "systemd: the dashboard"),
    "deploy/kubernetes.yaml": ("kubernetes.yaml", "Kubernetes: migration, workers with their probes, dashboard"),
    "deploy/keda.yaml": ("keda.yaml", "Kubernetes: as many workers as there is to do"),
    ".github/workflows/test.yml": ("test.yml", "GitHub Actions: the tests on every push"),
}


@click.command()
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@click.option("--name", help="The name of the app [the folder's name].")
@click.option("--list", "--dry-run", "only_list", is_flag=True, help="Print what would be written, write nothing.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def command(folder: Path, name: str | None, only_list: bool, force: bool) -> None:
    """Write a starter app into FOLDER [the working directory]: handler, test, settings, and files to deploy it.

    It runs as it is: `tenure dev app:inbox`. An existing file is overwritten only with --force.
    """
    words = _words(_name(folder, name))
    paths = {folder / _filled(path, words): source for path, (source, _) in FILES.items()}
    if only_list:
        _list(folder, words)
        return
    if not force:
        _refuse_to_overwrite(folder, list(paths))
    for path, source in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(_filled(_starter(source), words))
    echo(f"wrote {len(paths)} files to {folder}; `tenure new --list` says what each is for")
    echo(f"next: {'' if folder == Path() else f'cd {quoted(str(folder))} && '}tenure dev app:inbox")


def _name(folder: Path, given: str | None) -> str:
    """The project's name: of a package, an image and a Kubernetes object alike."""
    name = given or folder.resolve().name
    where = "--name" if given else "FOLDER"
    if not NAME.fullmatch(name):
        raise BadSettings(
            f"{where} {name!r} cannot be the name of a package: use letters, digits, - and _, a letter first, at most "
            f"40 of them{'' if given else ', or give --name'}"
        )
    if name.lower() == "tenure":
        raise BadSettings(f"{where} {name!r} is the name of the package it depends on: choose another with --name")
    return re.sub(r"[-_]+", "-", name.lower())


def _words(name: str) -> dict[str, str]:
    """The value for each @name@ in the starter."""
    drain_seconds = int(settings.DEFAULTS["TENURE_DRAIN_SECONDS"])
    return {
        "name": name,
        "version": __version__,
        "slots": settings.DEFAULTS["TENURE_SLOTS"],
        "lease_seconds": settings.DEFAULTS["TENURE_LEASE_SECONDS"],
        "drain_seconds": str(drain_seconds),
        "stop_seconds": str(drain_seconds + STOP_SECONDS),
        "health_port": str(HEALTH_PORT),
        "web_port": str(WEB_PORT),
        "backlog_query": _query("backlog"),
    }


def _query(name: str) -> str:
    """The SQL of a question without its header, indented for a block of YAML."""
    lines = sql.text(name).splitlines()
    return "\n".join(f"{QUERY_INDENT}{line}" for line in lines if not line.startswith("--"))


def _filled(text: str, words: Mapping[str, str]) -> str:
    return re.sub(r"@([a-z_]+)@", lambda found: words[found[1]], text)


def _starter(source: str) -> str:
    return (files(__package__) / "starter" / f"{source}.in").read_text(encoding="utf-8")


def _refuse_to_overwrite(folder: Path, paths: list[Path]) -> None:
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise BadSettings(f"{str(place)!r} is a file: name a folder")
    there = [str(path.relative_to(folder)) for path in paths if path.exists() or path.is_symlink()]
    if there:
        raise BadSettings(
            f"{', '.join(there)} {'is' if len(there) == 1 else 'are'} there already, so nothing was written: "
            "name another folder, or add --force to overwrite"
        )


def _list(folder: Path, words: Mapping[str, str]) -> None:
    named = {_filled(path, words): purpose for path, (_, purpose) in FILES.items()}
    width = max(map(len, named))
    for path, purpose in named.items():
        there = "  (is there already)" if (folder / path).exists() else ""
        echo(f"{path:<{width}}  {purpose}{there}")
