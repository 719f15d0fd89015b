"""Checks of the server and of the connection to it."""

from __future__ import annotations

from ..settings import POSTGRES_MAJORS
from ..verbs.roles import Grants
from .finding import Finding
from .questions import Server

SKEW_SECONDS_MAX = 5.0
SLOW_NOTE_SECONDS = 0.5


def versions(server: Server, package: str, driver: str, libpq: str) -> Finding:
    """Whether the versions fit together."""
    said = f"tenure {package}, PostgreSQL {server.version}, psycopg {driver}, libpq {libpq}"
    value = {"tenure": package, "postgres": server.version, "psycopg": driver, "libpq": libpq}
    if server.number // 10_000 < POSTGRES_MAJORS[0]:
        return Finding("versions", "fault", value, said, f"use PostgreSQL {POSTGRES_MAJORS[0]} or newer")
    return Finding("versions", "ok", value, said)


def clock(server: Server, here_seconds: float) -> Finding:
    """How far this machine's clock is from the server's. Leases use the server's clock alone."""
    skew = here_seconds - server.seconds
    said = (
        f"this machine is {abs(skew):.2f} s {'ahead of' if skew >= 0 else 'behind'} the server; leases use the server's"
    )
    if abs(skew) > SKEW_SECONDS_MAX:
        return Finding("clock", "warn", round(skew, 3), said, "run NTP on both: times in logs will not agree")
    return Finding("clock", "ok", round(skew, 3), said)


def primary(server: Server) -> Finding:
    """Whether the server takes writes."""
    if server.recovery:
        return Finding("primary", "fault", False, "this server is a standby", "connect to the primary")
    if server.read_only:
        said = "sessions here are read-only: every write is refused, and no worker can serve this inbox"
        step = "ALTER DATABASE … or ALTER ROLE … RESET default_transaction_read_only, or connect to the primary"
        return Finding("primary", "fault", False, said, step)
    return Finding("primary", "ok", True, "this server takes writes")


def durability(server: Server) -> Finding:
    """What is lost if the machine crashes."""
    off = [name for name in ("fsync", "full_page_writes") if not getattr(server, name)]
    if off:
        said = f"{' and '.join(off)} off: a crash of the machine can damage the database"
        return Finding("durability", "warn", off, said, f"ALTER SYSTEM RESET {off[0]}, then restart")
    if server.synchronous_commit == "off":
        said = "synchronous_commit is off: a crash can lose rows that were just enqueued"
        return Finding("durability", "warn", ["synchronous_commit"], said, "ALTER SYSTEM RESET synchronous_commit")
    return Finding("durability", "ok", [], f"fsync on, synchronous_commit {server.synchronous_commit}")


def public(server: Server) -> Finding:
    """Whether everybody may put functions where your sessions look for them."""
    if server.public_open:
        said = "everybody who may connect can create functions in the schema public, and your sessions would run them"
        return Finding("public", "warn", True, said, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    return Finding("public", "ok", False, "not everybody can create functions in the schema public")


def connections(server: Server, wanted: int, inboxes: int = 1) -> Finding:
    """How many connections are left, and how many one more worker takes, with all its inboxes on this server."""
    usable = server.max_connections - server.reserved
    left = usable - server.connections
    said = f"{server.connections} of {usable} are taken; one more worker of these settings takes up to {wanted}"
    said += f", for {inboxes} inboxes here" if inboxes > 1 else ""
    value = {"taken": server.connections, "usable": usable, "left": left}
    step = "raise max_connections, put a pooler in between, or give workers fewer slots"
    if left < max(3, usable // 20):
        return Finding("connections", "fault", value, said, step)
    if left < wanted:
        return Finding("connections", "warn", value, said, step)
    return Finding("connections", "ok", value, said)


def pooler(pooled: bool, session_url: bool) -> Finding:
    """Whether workers can keep a session."""
    if not pooled:
        return Finding("pooler", "ok", "none", "no pooler in between: presence and LISTEN work")
    said = "a transaction pooler is in between: presence and LISTEN do not work through it"
    if session_url:
        return Finding("pooler", "ok", "transaction", f"{said}; TENURE_SESSION_URL gives workers a direct address")
    return Finding("pooler", "warn", "transaction", said, "set TENURE_SESSION_URL to the server's own address")


def notes(seconds: float | None) -> Finding:
    """How long a note to ourselves takes to arrive."""
    if seconds is None:
        said = "a note to ourselves did not arrive: idle workers find new rows by polling"
        return Finding("listen", "warn", None, said, "look for a pooler or proxy in between")
    said = f"a note to ourselves came back in {seconds * 1000:.1f} ms"
    if seconds > SLOW_NOTE_SECONDS:
        return Finding("listen", "warn", seconds, said, "look for sessions that LISTEN and do not read their notes")
    return Finding("listen", "ok", seconds, said)


def roles(found: Grants) -> Finding:
    """Whether the roles' grants fit the schema."""
    value = found._asdict()
    if found.used and not found.current:
        said = "roles were granted before the last migration: members may be refused what they need"
        return Finding("roles", "fault", value, said, "`tenure migrate --roles`")
    if found.open_to_all:
        said = f"{found.open_to_all} functions are open to everybody who may use the schema"
        return Finding("roles", "warn", value, said, "`tenure migrate --roles`, or REVOKE EXECUTE … FROM PUBLIC")
    return Finding("roles", "ok", value, "granted" if found.used else "none in use: only the owner gets in")
