"""Citus under Patroni: a coordinator, an inbox on two servers, the second a synchronous standby, and another inbox."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

import citus_cluster
from chaos.ha_neighbour import Inbox, Neighbour, beside
from chaos.ha_patroni import NODES, Patroni
from chaos.ha_processes import FILES, Missing, Processes, until
from tenure.drills.failover.course import SCHEMA
from tenure.postgres.citus_door import door_of, homes, node_urls, open_door

COORDINATOR, OTHER = "coordinator", "other"
GROUPS = {COORDINATOR: 0, **dict.fromkeys(NODES, 1), OTHER: 2}
# Beside deploy/ha/patroni.yml: passwords are checked, certificates are not at hand.
SETTINGS = '    citus.node_conninfo: "sslmode=prefer"\n    citus.enable_statistics_collection: "off"\n'
MEMBERS = "SELECT FROM pg_dist_node WHERE noderole = 'primary' AND isactive AND hasmetadata AND metadatasynced"


class CitusNode(Patroni):
    """The node of inbox 1 is what is drilled; rows come to it through the coordinator as well."""

    name = "Citus under Patroni"

    def __init__(self, processes: Processes) -> None:
        if not citus_cluster.BIN:
            raise Missing("no Citus is at hand (TENURE_CITUS_BIN)")
        super().__init__(processes, Path(citus_cluster.BIN), (COORDINATOR, OTHER))
        self._file = processes.folder / "patroni.yml"
        whole = (FILES / "patroni.yml").read_text()
        self._file.write_text(whole.replace("    password_encryption:", f"{SETTINGS}    password_encryption:"))

    @contextmanager
    def neighbour(self) -> Iterator[Neighbour]:
        """Both inboxes, by a worker that asks the coordinator where they are."""
        url = self._coordinator
        found = homes(url, SCHEMA, [f"beat:{n}" for n in range(100)])
        keys = {home: key for key, home in found.items()}
        inboxes = {name: Inbox(url, door_of(SCHEMA), keys[name]) for name in ("1", "2")}
        with beside(inboxes, "2", shards=node_urls(url, SCHEMA), citus=url) as made:
            yield made

    @property
    def _coordinator(self) -> str:
        return self._address(str(self._ports[COORDINATOR]))

    def _start_nodes(self) -> None:
        for node in (COORDINATOR, OTHER):
            self._run(node)
            until(lambda: "leader" in self._roles((node,)).values(), f"{node} is primary")  # noqa: B023
        super()._start_nodes()
        until(self._joined, "the coordinator knows all nodes")
        list(open_door(self._coordinator, SCHEMA))

    def _joined(self) -> bool:
        with psycopg.connect(self._coordinator) as conn:
            return conn.execute(MEMBERS).rowcount == len(set(GROUPS.values()))

    def _settings(self) -> Path:
        return self._file

    def _node_variables(self, node: str) -> dict[str, str]:
        own = {"PATRONI_CITUS_GROUP": str(GROUPS[node]), "PATRONI_CITUS_DATABASE": "postgres"}
        return super()._node_variables(node) | own
