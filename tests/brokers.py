"""Real brokers for tests, each a process of ours on loopback with its own folder; one that cannot be had is told."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from patience import SECONDS_MAX

RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"
_KAFKA = """
import sys, time
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 2})
producer.list_topics("shop", timeout=20)  # makes it, of four partitions
brokers = producer.list_topics(timeout=20).brokers
print(next(f"{each.host}:{each.port}" for each in brokers.values()), flush=True)
while True:
    time.sleep(3600)
"""


def free_port() -> int:
    """A port of loopback that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Broker:
    """A broker's process: it can be killed, frozen and started again at the same address."""

    def __init__(
        self, command: list[str], port: int, url: str, folder: Path, env: dict[str, str] | None = None
    ) -> None:
        self.command, self.port, self.url, self.folder, self.env = command, port, url, folder, env or {}
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, and return when it listens."""
        with (self.folder / "log").open("ab") as log:
            env = {**os.environ, **self.env}
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, cwd=self.folder, env=env, start_new_session=True
            )
        by = time.monotonic() + SECONDS_MAX
        while not answers(self.port):
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < by, f"{self.command[0]} does not listen"
            time.sleep(0.05)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """It stands still meanwhile: connections stay, and nothing is answered."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """kill -9, with its children."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(SECONDS_MAX)
            self.process = None


@contextlib.contextmanager
def _broker(make: Callable[[Path, int], Broker]) -> Iterator[Broker]:
    folder = Path(tempfile.mkdtemp(prefix="tenure-broker-"))
    broker = make(folder, free_port())
    try:
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _left_out(what: str) -> Any:
    return pytest.skip(f"{what} cannot be had here: the tests with it are left out")


@contextlib.contextmanager
def nats_server(*more: str) -> Iterator[Broker]:
    """NATS with JetStream; more words go to its command line."""
    binary = Path(sys.executable).parent / "nats-server"
    if not binary.exists():
        _left_out("nats-server")

    def make(folder: Path, port: int) -> Broker:
        command = [str(binary), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder / "js"), *more]
        return Broker(command, port, f"nats://127.0.0.1:{port}", folder)

    with _broker(make) as broker:
        yield broker


@contextlib.contextmanager
def redis_server() -> Iterator[Broker]:
    """Redis that writes every command down before it answers."""
    binary = shutil.which("redis-server")
    if binary is None:
        _left_out("redis-server")

    def make(folder: Path, port: int) -> Broker:
        keep = ["--appendonly", "yes", "--appendfsync", "always", "--dir", str(folder)]
        command = [str(binary), "--bind", "127.0.0.1", "--port", str(port), *keep]
        return Broker(command, port, f"redis://127.0.0.1:{port}", folder)

    with _broker(make) as broker:
        yield broker


@contextlib.contextmanager
def rabbitmq_server(*lines: str) -> Iterator[Broker]:
    """RabbitMQ, its Erlang node and port mapper on loopback alone; more lines go to its settings."""
    if not Path(RABBITMQ).exists():
        _left_out("rabbitmq-server")

    def make(folder: Path, port: int) -> Broker:
        (folder / "rabbitmq.conf").write_text("\n".join((f"listeners.tcp.1 = 127.0.0.1:{port}", *lines, "")))
        (folder / "enabled_plugins").write_text("[].\n")
        loopback = "{inet_dist_use_interface,{127,0,0,1}}"
        env = {
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"tenure{port}@localhost",
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel {loopback[1:-1].replace(',', ' ', 1)} +S 1:1",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(free_port()),
        }
        # Erlang's port mapper would stay behind as a daemon: ours belongs to the group that is killed.
        command = ["/bin/sh", "-c", f"epmd & exec {RABBITMQ}"]
        return Broker(command, port, f"amqp://guest:guest@127.0.0.1:{port}/", folder, env)

    with _broker(make) as broker:
        yield broker


@contextlib.contextmanager
def kafka_mock() -> Iterator[str]:
    """The mock cluster of Kafka's client with the topic shop, in a process of its own; its address."""
    with subprocess.Popen([sys.executable, "-c", _KAFKA], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()
