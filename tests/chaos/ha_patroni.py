"""Patroni and etcd, started from deploy/ha: what differs from the files is addresses, folders and passwords."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import urllib.request
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

from chaos.ha_neighbour import Neighbour, on_own_server
from chaos.ha_processes import FILES, HERE, PROGRAMS, Missing, Processes, free_ports, kill_server, until, variables

BIN = Path("/usr/lib/postgresql/15/bin")
NODES = ("db-1", "db-2")


class Patroni:
    """One etcd and two nodes, the second a synchronous standby."""

    name = "Patroni"

    def __init__(self, processes: Processes, servers: Path = BIN, others: Sequence[str] = ()) -> None:
        self._processes, self._patroni, self._bin = processes, HERE / "patroni/bin/patroni", servers
        etcd = PROGRAMS / "etcd" if (PROGRAMS / "etcd").exists() else Path(shutil.which("etcd") or "etcd is missing")
        for program in (self._patroni, etcd, servers / "postgres"):
            if not program.exists():
                raise Missing(f"{program.name} is not here")
        self._etcd = etcd
        names = (*NODES, *others)
        self._etcd_port, self._peer_port, *ports = free_ports(2 + 2 * len(names))
        self._ports = dict(zip(names, ports[::2], strict=True))
        self._rest = dict(zip(names, ports[1::2], strict=True))
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        self._password = secrets.token_hex(8)

    @property
    def url(self) -> str:
        """Both nodes in one address."""
        return self._address(",".join(str(self._ports[node]) for node in NODES))

    def start(self) -> None:
        """Start everything, and wait until commits wait for the standby."""
        self._processes.start("etcd", [str(self._etcd)], **self._etcd_variables())
        self._start_nodes()

    def neighbour(self) -> AbstractContextManager[Neighbour]:
        """An inbox on another server."""
        return on_own_server(self.url)

    def _start_nodes(self) -> None:
        for node in NODES:
            self._run(node)
            until(lambda: "leader" in self._roles().values(), "a node is primary")
        until(lambda: "sync_standby" in self._roles().values(), "a standby is synchronous")

    def versions(self) -> str:
        """What runs here."""
        said = [
            subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
            for program in (self._patroni, self._etcd, self._bin / "postgres")
        ]
        return ", ".join(said)

    def switch(self) -> None:
        """Ask for the other node; returns when it was done."""
        leader = self._leader()
        other = next(node for node in NODES if node != leader)
        self._ask(leader, "switchover", {"leader": leader, "candidate": other})

    def rejoin(self) -> None:
        """Start what was killed, and wait until it is a synchronous standby again."""
        for node, agent in self._agents.items():
            if agent.poll() is not None:
                self._run(node)
        until(lambda: "sync_standby" in self._roles().values(), "the old primary is a synchronous standby")

    def kill(self) -> None:
        """The primary and its agent are gone."""
        leader = self._leader()
        kill_server(self._address(str(self._ports[leader])), self._processes.folder / leader, self._agents[leader])

    def _run(self, node: str) -> None:
        command = [str(self._patroni), str(self._settings())]
        self._agents[node] = self._processes.start(node, command, **self._node_variables(node))

    def _settings(self) -> Path:
        return FILES / "patroni.yml"

    def _address(self, ports: str) -> str:
        hosts = ",".join("127.0.0.1" for _ in ports.split(","))
        return make_conninfo(
            host=hosts, port=ports, user="postgres", password=self._password, dbname="postgres",
            target_session_attrs="read-write", connect_timeout=2,
        )  # fmt: skip

    def _etcd_variables(self) -> dict[str, str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return variables(FILES / "etcd.env") | {
            "ETCD_DATA_DIR": str(self._processes.folder / "etcd"),
            "ETCD_LISTEN_CLIENT_URLS": client,
            "ETCD_ADVERTISE_CLIENT_URLS": client,
            "ETCD_LISTEN_PEER_URLS": peer,
            "ETCD_INITIAL_ADVERTISE_PEER_URLS": peer,
            "ETCD_INITIAL_CLUSTER": f"etcd-1={peer}",
        }

    def _node_variables(self, node: str) -> dict[str, str]:
        folder = self._processes.folder
        rest, server = f"127.0.0.1:{self._rest[node]}", f"127.0.0.1:{self._ports[node]}"
        return variables(FILES / "node.env") | {
            "PATRONI_NAME": node,
            "PATRONI_ETCD3_HOSTS": f"127.0.0.1:{self._etcd_port}",
            "PATRONI_RESTAPI_LISTEN": rest,
            "PATRONI_RESTAPI_CONNECT_ADDRESS": rest,
            "PATRONI_POSTGRESQL_LISTEN": server,
            "PATRONI_POSTGRESQL_CONNECT_ADDRESS": server,
            "PATRONI_POSTGRESQL_DATA_DIR": str(folder / node),
            "PATRONI_POSTGRESQL_BIN_DIR": str(self._bin),
            "PATRONI_POSTGRESQL_PGPASS": str(folder / f"{node}.pgpass"),
            "PATRONI_SUPERUSER_PASSWORD": self._password,
            "PATRONI_REPLICATION_PASSWORD": self._password[::-1],
        }

    def _leader(self) -> str:
        return next(node for node, role in self._roles().items() if role == "leader")

    def _roles(self, nodes: Sequence[str] = NODES) -> dict[str, str]:
        """The role of each node that is running, asked of any that answers."""
        for node in nodes:
            try:
                said = self._ask(node, "cluster")
            except OSError:
                continue
            return {each["name"]: each["role"] for each in said["members"] if each["state"] in ("running", "streaming")}
        return {}

    def _ask(self, node: str, path: str, body: dict[str, str] | None = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._rest[node]}/{path}", data=json.dumps(body).encode() if body else None
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            text = answer.read().decode()
        return json.loads(text) if text.startswith("{") else text
