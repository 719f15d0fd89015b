"""Launching the embedded server: the plan for a new guardian, and its answer."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import BadSettings, NoDatabase
from .binaries import Binaries
from .disguise import Disguise, disguise
from .folder import PORT, Folder
from .guardian import Plan, command_line

START_SECONDS_MAX = 60.0
SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "cluster_name": "tenure",
    "shared_buffers": "128MB",
    "max_connections": "200",
    "logging_collector": "off",
    "log_destination": "stderr",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True)
class Manner:
    """How to run a server: what the caller that starts it may choose."""

    fast: bool
    linger_seconds: float
    settings: Mapping[str, str]
    standby_of: str = ""  # the address of its primary


def launch(place: Folder, programs: Binaries, boot: int, deadline: float, how: Manner) -> None:
    """Hand the boot lock to a new guardian and wait until its server is ready; NoDatabase if it does not start."""
    hear, say = os.pipe()
    try:
        _refuse_other_major(place, programs)
        plan = _plan(place, disguise(place, programs), (boot, say), how)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
        subprocess.run(
            command_line(json.dumps(plan)),
            pass_fds=(boot, say), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=say,
            start_new_session=True, cwd="/", env=environment | {"LC_ALL": "C"},
        )  # fmt: skip
    except BaseException:
        os.close(hear)
        raise
    finally:
        os.close(boot)
        os.close(say)
    word = _hear(hear, deadline)
    if word != "ready":
        why = word or "its guardian died"
        raise NoDatabase(f"the embedded Postgres in {place.path} did not start ({why}): read `cat {place.log}`")


def _hear(fd: int, deadline: float) -> str:
    """The last line the guardian wrote before it closed the pipe: "ready", or the error that ended it."""
    heard = b""
    with open(fd, "rb", buffering=0) as ear:
        while select.select([ear], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = ear.read(4096)
            if not part:
                return heard.decode(errors="replace").strip().rpartition("\n")[2]
            heard += part
    return f"no answer in {START_SECONDS_MAX:.0f} s"


def _refuse_other_major(place: Folder, programs: Binaries) -> None:
    try:
        made_by = (place.cluster / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        return
    if made_by != str(programs.major):
        raise BadSettings(
            f"{place.path} was made by PostgreSQL {made_by}, not {programs.version}: name another folder with "
            f"TENURE_HOME=/your/folder, or programs of version {made_by} with TENURE_PG_BIN=/their/bin"
        )


def _plan(place: Folder, guise: Disguise, fds: tuple[int, int], how: Manner) -> Plan:
    programs, socket = guise.binaries, place.choose_socket()
    settings = SETTINGS | (FAST if how.fast else {}) | dict(how.settings) | {"unix_socket_directories": str(socket)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    single = [str(programs.program("postgres")), "--single", *(["-F"] if how.fast else [])]
    return {
        "folder": str(place.path),
        "cluster": str(place.cluster),
        "socket_lock": str(socket / f".s.PGSQL.{PORT}.lock"),
        "initdb": _copy(programs, how.standby_of) if how.standby_of else _initdb(programs, how),
        "single": [] if how.standby_of else single,
        "first_sql": "create database tenure\n",
        "postgres": [str(programs.program("postgres")), *options],
        "masked": guise.masked,
        "become": list(guise.become or ()),
        "linger_seconds": how.linger_seconds,
        "boot_fd": fds[0],
        "report_fd": fds[1],
    }


def _initdb(programs: Binaries, how: Manner) -> list[str]:
    return [
        str(programs.program("initdb")), "-U", "tenure", "--encoding=UTF8", "--auth-local=trust", "--auth-host=reject",
        *_locale(programs.major), *(["--no-sync"] if how.fast else []),
    ]  # fmt: skip


def _copy(programs: Binaries, primary: str) -> list[str]:
    """A copy of the primary that follows it: -R writes down whom."""
    return [
        str(programs.program("pg_basebackup")), "-d", primary, "-R", "-X", "stream", "-c", "fast", "--no-sync",
    ]  # fmt: skip


def _locale(major: int) -> list[str]:
    """Sort order and case are the same on every machine: the built-in C.UTF-8, or the nearest an older server has."""
    if major >= 17:
        return ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    try:
        known = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.lower().split()
    except OSError:
        known = []
    return ["--locale=C", *(["--lc-ctype=C.UTF-8"] if {"c.utf8", "c.utf-8"} & set(known) else [])]
