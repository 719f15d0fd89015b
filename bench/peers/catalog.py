"""The peers: what installs each, where it lives, and how its driver is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

DRIVERS = Path(__file__).parent / "drivers"
HOME = Path(os.environ.get("TENURE_PEERS") or Path(__file__).resolve().parents[2] / ".peers")
LIMIT_SECONDS = 900


class Unable(Exception):
    """This peer cannot be installed or run here, and why."""


@dataclass(frozen=True)
class Peer:
    """One queue: the packages it needs, and how many jobs it drains in some seconds."""

    name: str
    driver: str
    packages: tuple[str, ...] = ()
    jobs: int = 5_000
    node: bool = False
    ours: bool = False
    broker: str = ""  # what it needs beside Postgres

    @property
    def folder(self) -> Path:
        """Its venv, or its folder of node modules."""
        return HOME / self.name

    def installed(self) -> str:
        """Its version, installed if it was not; raises Unable."""
        if self.ours:
            return ""
        if self.broker and not found(self.broker):
            raise Unable(f"needs {self.broker}, which apt could not install")
        if not (self.folder / "ready").exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            for command in self._installing():
                _run(command, self.folder)
            (self.folder / "ready").touch()
        return self._version()

    def _installing(self) -> list[list[str]]:
        if self.node:
            if not shutil.which("npm"):
                raise Unable("needs node and npm")
            return [["npm", "install", "--no-fund", "--no-audit", "--prefix", str(self.folder), *self.packages]]
        python = self._python()
        return [
            [python, "-m", "venv", str(self.folder)],
            [str(self._bin), "-m", "pip", "install", "-q", *self.packages],
        ]

    @staticmethod
    def _python() -> str:
        """The newest Python at hand: some peers need 3.12. A name alone may be a shim for one that is not there."""
        named = [path for minor in (13, 12) if (path := shutil.which(f"python3.{minor}"))]
        pyenv = sorted(Path.home().glob(".pyenv/versions/3.1[23].*/bin/python"), reverse=True)
        works = (
            path
            for path in [*named, *map(str, pyenv)]
            if not subprocess.run([path, "-V"], capture_output=True).returncode
        )
        return next(works, sys.executable)

    @property
    def _bin(self) -> Path:
        return self.folder / "bin" / "python"

    def _version(self) -> str:
        package = self.packages[0].split("[")[0]
        if self.node:
            shown = f"require('{self.folder}/node_modules/{package}/package.json').version"
            return _run(["node", "-p", shown], self.folder).strip()
        shown = f"import importlib.metadata as m; print(m.version('{package}'))"
        return _run([str(self._bin), "-c", shown], self.folder).strip()

    @cached_property
    def starts_with(self) -> list[str]:
        """The command of its driver, before what it shall do."""
        if self.node:
            return ["node", str(DRIVERS / f"{self.driver}.js")]
        python = sys.executable if self.ours else str(self._bin)
        return [python, str(DRIVERS / "driver.py"), self.driver]

    def environment(self, folder: Path, broker: str) -> dict[str, str]:
        """What its driver finds around it: no settings of ours, where to write, its packages."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "PG"))}
        env |= {"BENCH_FOLDER": str(folder), "BENCH_BROKER": broker, "NODE_PATH": str(self.folder / "node_modules")}
        return env | {"PYTHONPATH": os.pathsep.join([str(DRIVERS), *(sys.path if self.ours else ())])}


PEERS = (
    Peer("tenure", "peer_tenure", jobs=30_000, ours=True),
    Peer("procrastinate", "peer_procrastinate", ("procrastinate", "psycopg[binary]"), jobs=2_000),
    Peer("pgqueuer", "peer_pgqueuer", ("pgqueuer", "asyncpg", "uvloop"), jobs=20_000),
    Peer("chancy", "peer_chancy", ("chancy", "psycopg[binary]"), jobs=5_000),
    Peer("oban", "peer_oban", ("oban", "psycopg[binary,pool]"), jobs=8_000),
    Peer("dbos", "peer_dbos", ("dbos", "psycopg[binary]"), jobs=1_000),
    Peer("awa-pg", "peer_awa", ("awa-pg",), jobs=8_000),
    Peer("django-ox", "peer_django_ox", ("django-ox", "django", "psycopg[binary,pool]"), jobs=1_000),
    Peer("celery", "peer_celery", ("celery[redis]",), jobs=3_000, broker="redis-server"),
    Peer("graphile-worker", "peer_graphile", ("graphile-worker",), jobs=30_000, node=True),
    Peer("pg-boss", "peer_pgboss", ("pg-boss",), jobs=30_000, node=True),
)


def found(program: str) -> bool:
    """Whether it is here, or apt could bring it."""
    if not shutil.which(program) and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-q", program], capture_output=True, timeout=LIMIT_SECONDS)
    return shutil.which(program) is not None


def _run(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
    except (subprocess.SubprocessError, OSError) as error:
        told = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        raise Unable(f"could not be installed: {told[-1] if told else command[0]}") from error
    return done.stdout
