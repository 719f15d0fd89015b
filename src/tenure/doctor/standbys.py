"""Checks of what a failover would do: who follows the server, whether the address finds the next one, and the lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from psycopg.conninfo import conninfo_to_dict

from ..errors import BadSettings
from ..verbs.questions import Member
from ..worker.config import Terms
from .config import terms_of
from .finding import Finding
from .fleet import alive
from .questions import Standbys

WAITS = ("on", "remote_apply", "remote_write")  # values of synchronous_commit with which a commit waits for a standby
LEASE_IN_GAPS = 2.0  # a lease should last twice the gap of a failover
GUIDE = "see docs/guides/ha.md"


class Address(NamedTuple):
    """What the address of the database says: how many servers it names, and whether it asks for one that writes."""

    servers: int
    writable: bool
    pooled: bool = False


def address_of(url: str, *, pooled: bool = False) -> Address:
    """Read an address; a host that stands in a service file or the environment counts as one."""
    words = conninfo_to_dict(url)
    named = str(words.get("hostaddr") or words.get("host") or "")
    return Address(named.count(",") + 1, words.get("target_session_attrs") in ("read-write", "primary"), pooled)


def synchronous(follow: Standbys, address: Address) -> Finding:
    """Whether an acknowledged row outlives this server."""
    value = follow._asdict()
    many = (
        f"{follow.streaming} standby{'s' * (follow.streaming != 1)} follow{'s' * (follow.streaming == 1)} this server"
    )
    if follow.names and not follow.streaming:
        said = f"synchronous_standby_names is {follow.names!r} and no standby follows this server: every commit waits"
        return Finding("standbys", "fault", value, said, f"start the standby, or reset the setting; {GUIDE}")
    if not follow.streaming:
        if address.servers == 1:
            return Finding("standbys", "ok", value, "none follows this server: what is lost with it is lost")
        said = f"the address names {address.servers} servers, and no standby follows this one"
        return Finding("standbys", "warn", value, said, f"start the standby: a failover would find nothing; {GUIDE}")
    if not follow.synchronous and not follow.names:
        said = f"{many} and none is synchronous: a failover loses the rows that were not sent yet"
        return Finding("standbys", "warn", value, said, f"set synchronous_standby_names = 'ANY 1 (*)'; {GUIDE}")
    if follow.commit not in WAITS:
        said = f"{many}, and synchronous_commit = {follow.commit} does not wait for any: a failover loses rows"
        return Finding("standbys", "warn", value, said, f"ALTER SYSTEM RESET synchronous_commit; {GUIDE}")
    return Finding("standbys", "ok", value, f"{many}, {follow.synchronous} synchronous: acknowledged rows are on both")


def address(follow: Standbys, address: Address) -> Finding:
    """Whether workers and producers find the next primary."""
    value = {"servers": address.servers, "writable": address.writable}
    if address.pooled:
        return Finding("address", "ok", value, "it names a pooler, which must follow the primary")
    if address.servers > 1 and not address.writable:
        said = f"it names {address.servers} servers and may lead to a standby, which takes no rows"
        return Finding("address", "warn", value, said, "add target_session_attrs=read-write to it")
    if follow.streaming and address.servers == 1:
        said = (
            f"it names one server, and {follow.streaming} more could become primary: after a failover it leads nowhere"
        )
        step = f"name them all: host=a,b target_session_attrs=read-write, or a name that moves; {GUIDE}"
        return Finding("address", "warn", value, said, step)
    servers = "one server" if address.servers == 1 else f"{address.servers} servers, and leads to the one that writes"
    return Finding("address", "ok", value, f"it names {servers}")


def gap(workers: list[Member], environ: Mapping[str, str] | None = None) -> Finding:
    """Whether leases outlive the last time without a database, as workers have seen it."""
    seen = max((_away(worker) for worker in alive(workers)), default=0.0)
    lease = _lease_seconds(environ)
    value = {"gap_seconds": seen, "lease_seconds": lease}
    if not seen:
        return Finding("gap", "ok", value, "no worker was without its database since it started")
    said = f"a worker was without its database for {seen:g} s, and a lease lasts {lease:g} s"
    if lease < LEASE_IN_GAPS * seen:
        step = f"raise TENURE_LEASE_SECONDS to {LEASE_IN_GAPS * seen:.0f} or more: rows would be run again; {GUIDE}"
        return Finding("gap", "warn", value, said, step)
    return Finding("gap", "ok", value, said)


def _lease_seconds(environ: Mapping[str, str] | None) -> float:
    """Of a worker that is started here; for bad settings, which `lease` reports, the default's."""
    try:
        return terms_of(environ).lease_seconds
    except BadSettings:
        return Terms("").lease_seconds


def _away(worker: Member) -> float:
    """What the worker says of itself: whoever may write its row may write anything."""
    said = worker.metadata.get("away_seconds")
    return float(said) if isinstance(said, int | float) and 0 <= said < 1e6 else 0.0
