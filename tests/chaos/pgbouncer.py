"""The real PgBouncer in transaction mode, in front of a test's server."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from guarantees.facts import until

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
NOBODY = 65534


@contextlib.contextmanager
def pgbouncer(url: str, *, pool_size: int = 3, **settings: object) -> Iterator[str]:
    """A pooler before the server of that address while the block lasts; gives the address through it."""
    given: dict[str, Any] = conninfo_to_dict(url)
    port = _free_port()
    through = make_conninfo(**{**given, "host": "127.0.0.1", "hostaddr": "127.0.0.1", "port": port})
    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder, "pgbouncer.ini"), Path(folder, "pgbouncer.log")
        file.write_text(_configuration(given, {"listen_port": port, "default_pool_size": pool_size, **settings}))
        pooler = _start(file, log, _owner(given))
        try:
            until(lambda: pooler.poll() is not None or _answers(through), "PgBouncer answers")
            assert pooler.poll() is None, log.read_text()[-500:]
            yield through
        finally:
            pooler.terminate()
            pooler.wait()


def _configuration(given: Mapping[str, object], settings: Mapping[str, object]) -> str:
    words = {name: given[name] for name in ("host", "port", "dbname", "user", "password") if given.get(name)}
    every = {
        "listen_addr": "127.0.0.1",
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": "transaction",
        "max_client_conn": 100,
        "server_login_retry": 1,
        **settings,
    }
    lines = [f"{name} = {value}" for name, value in every.items()]
    database = " ".join(f"{name}={value}" for name, value in words.items())
    return "\n".join(["[databases]", f"{words['dbname']} = {database}", "[pgbouncer]", *lines, ""])


def _owner(given: Mapping[str, object]) -> int:
    """Whoever owns the server's socket may connect to it."""
    host = str(given.get("host") or "")
    return Path(host, f".s.PGSQL.{given['port']}").stat().st_uid if host.startswith("/") else NOBODY


def _start(file: Path, log: Path, owner: int) -> subprocess.Popen[bytes]:
    """PgBouncer refuses root: it becomes the owner, or, if that is root, is given a namespace that does not say so."""
    assert PROGRAM is not None
    command, uid = [PROGRAM, str(file)], None
    if os.geteuid() == 0 and owner == 0:
        command = ["unshare", "--user", *command]
    elif os.geteuid() == 0:
        uid = owner
        for path in (file.parent, file):
            os.chown(path, owner, -1)
    with log.open("wb") as words:
        return subprocess.Popen(command, user=uid, stdout=words, stderr=words)


def _answers(url: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=2):
        return True
    return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
