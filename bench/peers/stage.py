"""One peer at work on a database of its own: its driver started, its rows sent, its workers watched and killed."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from .catalog import Peer, Unable

COMMAND_SECONDS = 300.0
DRAIN_SECONDS = 240.0
PACE_SECONDS = 0.03
LEAVE_SECONDS = 8.0


class Stage:
    """A peer with its database, its folder and, if it has one, its broker."""

    def __init__(self, peer: Peer, url: str, folder: Path, broker: str) -> None:
        self.peer, self._url, self._folder, self._broker = peer, url, folder, broker
        self._next = 1

    def setup(self) -> None:
        """Its tables."""
        self._ask("setup", wanted=False)

    def one(self, rows: int, kind: str = "nothing", pace: float = 0.0) -> list[tuple[int, float]]:
        """Rows one by one: each with when its commit had returned."""
        answer = self._ask("one", kind, str(self._take(rows)), str(rows), str(pace))
        return [(int(k), float(at)) for k, at in answer["sent"]]

    def rate(self, rows: int) -> float:
        """Rows a second, one by one."""
        answer = self._ask("one", "nothing", str(self._take(rows)), str(rows), "0")
        return rows / float(answer["sent"][-1][1] - answer["ready"])

    def bulk(self, rows: int, kind: str = "nothing") -> float:
        """Rows a second, in bulk."""
        answer = self._ask("many", kind, str(self._take(rows)), str(rows), "0")
        return rows / float(answer["sent"][-1][1] - answer["ready"])

    def drain(self, workers: int, jobs: int) -> float:
        """Jobs a second of what is there, from when all workers are at it to when nearly all is done."""
        for old in self._folder.glob("count-*"):
            old.unlink()
        with contextlib.ExitStack() as stack:
            for _ in range(workers):
                stack.enter_context(self.worker("best"))
            samples = list(self._watched(jobs))
        return steady_rate(samples, workers, jobs)

    def _watched(self, jobs: int) -> Iterator[tuple[float, int, int]]:
        """Time, jobs done, processes that have begun, until all is done."""
        by, done = time.monotonic() + DRAIN_SECONDS, 0
        while done < jobs:
            if time.monotonic() > by:
                raise Unable(f"{done} of {jobs} jobs were done after {DRAIN_SECONDS:.0f} s")
            time.sleep(0.05)
            counts = [int(file.read_text()) for file in self._folder.glob("count-*[0-9]")]
            done = sum(counts)
            yield time.monotonic(), done, sum(count > 0 for count in counts)

    def waits(self, rows: int) -> list[float]:
        """Seconds from each commit to its start, by an idle worker."""
        with self.worker("best"):
            self._began("starts", self.one(1, "tell")[-1][0])
            time.sleep(1)
            sent = self.one(rows, "tell", PACE_SECONDS)
            began = self._began("starts", *(k for k, _ in sent))
        return [max(0.0, began[k] - at) for k, at in sent]

    def rerun(self, most: float) -> float | None:
        """Seconds from kill -9 of the worker that runs a row to its start elsewhere, with default settings."""
        ledger = self._folder / "hangs"
        with self.worker("default") as first:
            (k,) = [k for k, _ in self.one(1, "hang")]
            self._began("hangs", k)
            before = len(ledger.read_text().splitlines())
            with self.worker("default"):
                time.sleep(5)  # it is up, and has joined what there is to join
                killed = time.monotonic()
                os.killpg(first.pid, signal.SIGKILL)
                while time.monotonic() < killed + most:
                    lines = ledger.read_text().splitlines()
                    if len(lines) > before:
                        return float(lines[before].split()[1]) - killed
                    time.sleep(0.1)
        return None

    def _began(self, name: str, *ks: int) -> dict[int, float]:
        """What has begun, once all these have."""
        by, ledger = time.monotonic() + 60, self._folder / name
        while time.monotonic() < by:
            lines = ledger.read_text().splitlines() if ledger.exists() else []
            found = {int(line.split()[0]): float(line.split()[1]) for line in lines if len(line.split()) == 2}
            if found.keys() >= set(ks):
                return found
            time.sleep(0.02)
        raise Unable("a row that was sent did not start within a minute")

    @contextlib.contextmanager
    def worker(self, settings: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker process, asked to leave at the end, and killed with all that it has started if it does not."""
        with (self._folder / "worker.log").open("ab") as log:
            process = subprocess.Popen(
                [*self.peer.starts_with, "worker", self._url, settings],
                env=self.peer.environment(self._folder, self._broker),
                cwd=self._folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            ended(process)

    def _take(self, rows: int) -> int:
        first, self._next = self._next, self._next + rows
        return first

    def _ask(self, *words: str, wanted: bool = True) -> Any:
        command, *rest = words
        try:
            done = subprocess.run(
                [*self.peer.starts_with, command, self._url, *rest],
                env=self.peer.environment(self._folder, self._broker),
                cwd=self._folder,
                capture_output=True,
                text=True,
                timeout=COMMAND_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise Unable(f"{command} did not end within {COMMAND_SECONDS:.0f} s") from None
        if done.returncode:
            told = (done.stderr or done.stdout).strip().splitlines()
            raise Unable(f"{command} failed: {told[-1] if told else done.returncode}")
        return json.loads(done.stdout.strip().splitlines()[-1]) if wanted else None


def ended(process: subprocess.Popen[bytes]) -> None:
    """In good order if it can: what others know of a worker that was killed would be in the way of the next one."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(LEAVE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def steady_rate(samples: list[tuple[float, int, int]], workers: int, jobs: int) -> float:
    """Between the first look at which all have begun and the last at which at most 95 % is done."""
    steady = [(at, done) for at, done, begun in samples if begun >= workers and done <= 0.95 * jobs]
    if len(steady) < 3 or steady[0][1] == steady[-1][1]:  # too quick for looks: from the first job seen to the last
        steady = [(at, done) for at, done, _ in samples if done]
        if len(steady) < 2 or steady[0][1] == steady[-1][1]:
            raise Unable("all was done between two looks: give it more jobs")
    (first, some), (last, all_) = steady[0], steady[-1]
    return (all_ - some) / (last - first)


@contextlib.contextmanager
def staged(peer: Peer, server_url: str) -> Iterator[Stage]:
    """The peer on a new database of this server, its tables made."""
    name = f"peer_{secrets.token_hex(6)}"
    with (
        tempfile.TemporaryDirectory(prefix="tenure-peer-", ignore_cleanup_errors=True) as folder,
        psycopg.connect(server_url, autocommit=True) as conn,
        redis(peer, Path(folder)) as broker,
    ):
        conn.execute(f"CREATE DATABASE {name}".encode())
        try:
            stage = Stage(peer, plain_url(server_url, name), Path(folder), broker)
            stage.setup()
            yield stage
        finally:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextlib.contextmanager
def redis(peer: Peer, folder: Path) -> Iterator[str]:
    """A broker of its own on loopback, written to disk every second, for the peer that needs one."""
    if not peer.broker:
        yield ""
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--appendonly", "yes", "--dir", str(folder), "--save", ""]
    process = subprocess.Popen([peer.broker, *options], stdout=subprocess.DEVNULL)
    try:
        time.sleep(1)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


def plain_url(server_url: str, database: str) -> str:
    """The address in the one form that all drivers read."""
    words = {name: str(value) for name, value in conninfo_to_dict(server_url).items() if value is not None}
    secret = f":{words['password']}" if "password" in words else ""
    user, host, port = words.get("user", "postgres"), words.get("host", "127.0.0.1"), words.get("port", "5432")
    if host.startswith("/"):
        word = f"&password={quote(words['password'], safe='')}" if "password" in words else ""
        return f"postgresql:///{database}?host={quote(host, safe='')}&port={port}&user={user}{word}"
    return f"postgresql://{user}{secret}@{host}:{port}/{database}"


def p99(waited: list[float]) -> float:
    """The time within which all but one in a hundred started."""
    return statistics.quantiles(waited, n=100, method="inclusive")[98]
