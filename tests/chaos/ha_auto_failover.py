"""pg_auto_failover, by deploy/ha/pg_auto_failover.sh: what differs is addresses, folders, and trust on loopback."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from contextlib import AbstractContextManager, suppress

import psycopg
from psycopg.conninfo import make_conninfo

from chaos.ha_neighbour import Neighbour, on_own_server
from chaos.ha_processes import FILES, HERE, PROGRAMS, Missing, Processes, free_ports, kill_server, until

BIN = HERE / "root/usr/lib/postgresql/15/bin"  # with the extension of the monitor beside it, which the system's has not
CONTROL = PROGRAMS / "pg_autoctl"
SCRIPT = FILES / "pg_auto_failover.sh"
NODES = ("db-1", "db-2")
OWNER = pwd.getpwuid(os.geteuid() or 65534).pw_name  # who made the servers: see MASK


class AutoFailover:
    """A monitor and two nodes, the second a synchronous standby."""

    name = "pg_auto_failover"

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        for program in (CONTROL, BIN / "postgres"):
            if not program.exists():
                raise Missing(f"{program.name} is not here")
        self._monitor_port, *ports = free_ports(3)
        self._ports = dict(zip(NODES, ports, strict=True))
        self._agents: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        """Both nodes in one address."""
        return self._address(",".join(str(self._ports[node]) for node in NODES))

    def start(self) -> None:
        """Start everything, and wait until commits wait for the standby."""
        self._run("monitor", "monitor")
        until(lambda: self._monitor("SELECT 1"), "the monitor answers")
        for node in NODES:
            self._agents[node] = self._run(node, "node", node)
            until(lambda: self._states().get(node) in ("single", "primary", "secondary"), f"{node} is there")  # noqa: B023
        self.rejoin()

    def versions(self) -> str:
        """What runs here."""
        said = [
            subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
            for program in (CONTROL, BIN / "postgres")
        ]
        return ", ".join(said)

    def switch(self) -> None:
        """Ask for the other node; the monitor does the rest."""
        self._monitor("SELECT pgautofailover.perform_failover()")

    def rejoin(self) -> None:
        """Start what was killed, and wait until the other node is a synchronous standby."""
        for node, agent in self._agents.items():
            if agent.poll() is not None:
                self._agents[node] = self._run(node, "node", node)
        until(lambda: sorted(self._states().values()) == ["primary", "secondary"], "a standby is synchronous")

    def kill(self) -> None:
        """The primary and its agent are gone."""
        node = next(node for node, state in self._states().items() if state == "primary")
        kill_server(self._address(str(self._ports[node])), self._processes.folder / node, self._agents[node])
        with suppress(ProcessLookupError):
            os.killpg(self._agents[node].pid, signal.SIGKILL)  # what the agent has started

    def neighbour(self) -> AbstractContextManager[Neighbour]:
        """An inbox on another server."""
        return on_own_server(self.url)

    def _run(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        env = {
            "PATH": f"{PROGRAMS}:{BIN}:{os.environ['PATH']}",
            "MONITOR_HOST": "127.0.0.1",
            "MONITOR_PORT": str(self._monitor_port),
            "NODE_HOST": "127.0.0.1",
            "NODE_PORT": str(self._ports.get(name, 0)),
            "PGDATA": str(self._processes.folder / name),
            "PG_CTL": str(BIN / "pg_ctl"),
            "PG_REGRESS_SOCK_DIR": str(self._processes.folder),  # no folder of the system
            "PGHOST": str(self._processes.folder),
            "XDG_RUNTIME_DIR": str(self._processes.folder / f"{name}-run"),
            "AUTH": "trust",
        }
        return self._processes.start(name, ["sh", str(SCRIPT), *words], **env)

    def _address(self, ports: str) -> str:
        hosts = ",".join("127.0.0.1" for _ in ports.split(","))
        return make_conninfo(
            host=hosts, port=ports, user=OWNER, dbname="tenure", target_session_attrs="read-write",
            connect_timeout=2,
        )  # fmt: skip

    def _monitor(self, query: str) -> list[tuple[str, ...]]:
        address = make_conninfo(
            host="127.0.0.1", port=self._monitor_port, user="autoctl_node", dbname="pg_auto_failover"
        )
        with psycopg.connect(address, autocommit=True, connect_timeout=2) as conn:
            done = conn.execute(query.encode())
            return done.fetchall() if done.description else []

    def _states(self) -> dict[str, str]:
        """The state that each node has reported, once the monitor wants no other."""
        asked = "SELECT nodename, reportedstate::text FROM pgautofailover.node WHERE reportedstate = goalstate"
        return dict(self._monitor(asked))  # type: ignore[arg-type]
