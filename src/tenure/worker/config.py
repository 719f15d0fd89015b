"""The settings of one worker: every number with its unit, every relation between two of them checked here."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..errors import BadSettings
from ..model.payload import check_name
from ..settings import DEFAULT_SCHEMA, check_schema_name, check_shards
from ..verbs.lifecycle import LEASE_SECONDS, check_lease_seconds

SLOTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Terms:
    """What a worker was started with."""

    url: str = field(default="", repr=False)  # as other addresses: it may have a password
    session_url: str | None = field(default=None, repr=False)  # for LISTEN and presence, if `url` is a pooler
    schema: str = DEFAULT_SCHEMA
    queues: Mapping[str, float] = field(default_factory=lambda: {"default": 1.0})
    slots: int = 20
    lease_seconds: float = LEASE_SECONDS
    drain_seconds: float = 25.0
    poll_seconds: float = 2.0
    heartbeat_seconds: float = 10.0
    ttl_seconds: float = 30.0
    grace_seconds: float = 6.0
    retention_seconds: float = 14 * 86_400.0
    housekeeping: bool = True
    listen: bool = True
    name: str = field(default_factory=socket.gethostname)  # what its ids begin with
    shards: Mapping[str, str] = field(default_factory=dict, repr=False)  # URLs of several inboxes by name, not `url`
    citus: str = field(default="", repr=False)  # the coordinator of a Citus cluster: it knows where the shards are
    inbox: str = ""  # which of them, in the terms of a post

    def __post_init__(self) -> None:
        check_schema_name(self.schema)
        check_lease_seconds(self.lease_seconds)
        check_name(self.name, "name")
        self._check_shards()
        if not 1 <= self.slots <= SLOTS_MAX:
            raise BadSettings(f"slots={self.slots} must be between 1 and {SLOTS_MAX}: it is how many jobs run at once")
        if not self.queues:
            raise BadSettings("queues is empty: name at least one queue, or give the inbox a handler")
        for queue, weight in self.queues.items():
            check_name(queue, "queue")
            if not 0 < weight < 1e6:
                raise BadSettings(f"queue {queue!r} has weight {weight!r}: it must be above 0")
        for name in ("drain_seconds", "poll_seconds", "heartbeat_seconds", "ttl_seconds", "grace_seconds"):
            if not 0 < getattr(self, name) <= 86_400:
                raise BadSettings(f"{name}={getattr(self, name)!r} must be above 0 and at most a day")
        if self.lease_seconds < 1 or self.grace_seconds < 1:
            raise BadSettings(
                f"lease_seconds={self.lease_seconds:g} and grace_seconds={self.grace_seconds:g} must be at least 1: "
                "a worker checks its leases five times a second"
            )
        if self.drain_seconds >= self.lease_seconds:
            raise BadSettings(
                f"drain_seconds={self.drain_seconds:g} must be below lease_seconds={self.lease_seconds:g}: "
                "a drained row would expire first"
            )
        if self.ttl_seconds < 2 * self.heartbeat_seconds:
            raise BadSettings(
                f"ttl_seconds={self.ttl_seconds:g} must be at least twice "
                f"heartbeat_seconds={self.heartbeat_seconds:g}: one late heartbeat would end a worker"
            )

    def _check_shards(self) -> None:
        if self.url and self.shards:
            raise BadSettings("url and shards: give one of them; shards are the URLs of several inboxes by name")
        if self.shards and self.session_url:
            raise BadSettings("session_url cannot be given with shards: give each shard its server's own address")
        check_shards(self.shards)

    @property
    def posts(self) -> list[Terms]:
        """The terms of each post: one for each shard, or these."""
        if not self.shards:
            return [self]
        return [self.at(inbox, url) for inbox, url in self.shards.items()]

    def at(self, inbox: str, url: str) -> Terms:
        """The terms of the post at this inbox."""
        return replace(self, url=url, shards={}, inbox=inbox)

    @property
    def renew_seconds(self) -> float:
        """How often a lease is renewed, unless its handler sets another length."""
        return self.lease_seconds / 3

    def margin_of(self, lease_seconds: float) -> float:
        """How long before the end of its lease a handler is stopped, by this worker's clock."""
        return min(1.0, lease_seconds / 10)


def new_worker_id(terms: Terms) -> str:
    """name-pid-nonce, of a post name-pid-nonce@inbox: never used before, so that no worker is mistaken for another."""
    return at_inbox(f"{terms.name[:64]}-{os.getpid()}-{secrets.token_hex(4)}", terms.inbox)


def at_inbox(worker_id: str, inbox: str) -> str:
    """The id of a worker as this inbox knows it."""
    return f"{worker_id}@{inbox}" if inbox else worker_id
