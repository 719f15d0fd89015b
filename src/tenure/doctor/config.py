"""Whether the settings of a worker fit together: lease, renewal, drain, grace, and the orchestrator's time limit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from .. import settings
from ..errors import BadSettings
from ..worker.config import Terms
from ..worker.worker import LAST_WORDS_SECONDS
from .finding import Finding

SHORT_LEASE_SECONDS = 15.0
NUMBERS = (
    "lease_seconds",
    "renew_seconds",
    "drain_seconds",
    "poll_seconds",
    "grace_seconds",
    "heartbeat_seconds",
    "ttl_seconds",
)
# Claimer, completer, lease keeper, housekeeper; and one for each handler inside a fenced transaction.
CONNECTIONS_OF_A_WORKER = 4


def terms_of(environ: Mapping[str, str] | None = None) -> Terms:
    """The terms of a worker that is started here; BadSettings if they contradict each other."""

    def number(name: str) -> float:
        return settings.number(f"TENURE_{name.upper()}", environ=environ)

    return Terms(
        "",
        slots=settings.whole("TENURE_SLOTS", environ=environ),
        lease_seconds=number("lease_seconds"),
        drain_seconds=number("drain_seconds"),
        poll_seconds=number("poll_seconds"),
        grace_seconds=number("grace_seconds"),
    )


def lease(environ: Mapping[str, str] | None = None) -> Finding:
    """Whether lease, renewal, drain, grace and heartbeat fit together."""
    try:
        terms = terms_of(environ)
    except BadSettings as refused:
        return Finding("lease", "fault", None, str(refused), "correct it: a worker would not start")
    value = {name: getattr(terms, name) for name in NUMBERS}
    said = (
        f"lease {terms.lease_seconds:g} s renewed every {terms.renew_seconds:g} s, drain {terms.drain_seconds:g} s, "
        f"grace {terms.grace_seconds:g} s, heartbeat {terms.heartbeat_seconds:g} s of {terms.ttl_seconds:g} s"
    )
    if terms.lease_seconds < SHORT_LEASE_SECONDS:
        step = f"raise TENURE_LEASE_SECONDS to {SHORT_LEASE_SECONDS:g} or more"
        return Finding("lease", "warn", value, f"{said}: a pause of a few seconds ends a lease", step)
    return Finding("lease", "ok", value, said)


def termination(environ: Mapping[str, str] | None = None) -> Finding | None:
    """Whether the orchestrator waits long enough for a drain; None if its time limit is not known."""
    env = os.environ if environ is None else environ
    if settings.find("TENURE_TERMINATION_GRACE_SECONDS", environ=env) is None:
        if "KUBERNETES_SERVICE_HOST" not in env:
            return None
        said = "this is a pod, and how long it may take to stop is not set"
        step = "set TENURE_TERMINATION_GRACE_SECONDS to its terminationGracePeriodSeconds"
        return Finding("termination", "warn", None, said, step)
    patience = settings.number("TENURE_TERMINATION_GRACE_SECONDS", environ=env)
    needed = settings.number("TENURE_DRAIN_SECONDS", environ=env) + 2 * LAST_WORDS_SECONDS
    said = f"SIGKILL comes {patience:g} s after SIGTERM, a drain takes up to {needed:g} s"
    if patience < needed:
        step = f"set terminationGracePeriodSeconds above {needed:g}, or lower TENURE_DRAIN_SECONDS"
        return Finding("termination", "fault", patience, said, step)
    return Finding("termination", "ok", patience, said)


def wanted_connections(environ: Mapping[str, str] | None = None, url: str = "") -> int:
    """The most connections of one worker that is started here to the server of this address.

    Each of its inboxes on that server takes as many. For bad slots, which `lease` reports, the default's.
    """
    try:
        terms = Terms("", slots=settings.whole("TENURE_SLOTS", environ=environ))
    except BadSettings:
        terms = Terms("")
    return max(1, inboxes_at(url, environ)) * (CONNECTIONS_OF_A_WORKER + terms.slots)


def inboxes_at(url: str, environ: Mapping[str, str] | None = None) -> int:
    """How many of several inboxes are on the server of this address."""
    try:
        urls = settings.shards(environ=environ).values()
    except BadSettings:
        return 0
    return sum(1 for each in urls if _server_of(each) == _server_of(url))


def _server_of(url: str) -> tuple[Any, Any]:
    words = conninfo_to_dict(url)
    return words.get("host") or words.get("hostaddr"), words.get("port") or 5432
