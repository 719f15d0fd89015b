"""Every setting by its name: what it means, its default, and which values are secret."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from ..errors import BadSettings

DEFAULT_SCHEMA = "tenure"
DOOR = "_door"  # what the schema of a Citus cluster's door is called beyond that of its inboxes
POSTGRES_MAJORS = range(14, 19)  # the versions every change is tested on
# Also where the address is mistyped: what is between a colon and the last @.
_PASSWORD = re.compile(r"(:(?!//)).*@|(password\s*=\s*)(?:'[^']*'?|[^\s&]+)", re.IGNORECASE | re.DOTALL)
_SECRET = re.compile(r"TOKEN|USERS|PASSWORD|SECRET|_KEYS")
BETWEEN_SHARDS = re.compile(r",\s*(?=[^,=/]*=\s*postgres(?:ql)?://)")  # the hosts of one URL have commas, too
URLS = ("TENURE_DATABASE_URL", "DATABASE_URL")
LIBPQ = ("PGSERVICE", "PGHOST", "PGHOSTADDR", "PGDATABASE")  # each of them names a database, too

KNOWN = {
    "TENURE_DATABASE_URL": "where the database is, as a postgresql:// URL or libpq words",
    "TENURE_SESSION_URL": "a direct address for the one session a worker keeps, where TENURE_DATABASE_URL is a pooler",
    "TENURE_SHARDS": "several inboxes that one worker serves and commands look into, by name: eu=postgresql://…,us=postgresql://…",
    "TENURE_CITUS": "whether the database is the coordinator of a Citus cluster with an inbox a node: on or off (off)",
    "TENURE_SCHEMA": "the schema of Tenure's tables (tenure)",
    "TENURE_HOME": "where the embedded Postgres keeps its files",
    "TENURE_PROJECT": "the database of the embedded Postgres (one for each project's folder)",
    "TENURE_TRACE": "how spans of OpenTelemetry connect a job with its producer: link, parent or off (link)",
    "TENURE_PG_BIN": "the bin folder of another PostgreSQL for the embedded server",
    "TENURE_QUEUES": "which queues a worker serves",
    "TENURE_SLOTS": "how many jobs a worker runs at once",
    "TENURE_LEASE_SECONDS": "how long a lease lasts without renewal; longer than a drain, so lower that too",
    "TENURE_DRAIN_SECONDS": "how long handlers may finish after SIGTERM",
    "TENURE_POLL_SECONDS": "how often a worker polls when no note wakes it",
    "TENURE_GRACE_SECONDS": "how long a worker may stay away after its session ended",
    "TENURE_HEALTH_PORT": "where a worker serves /livez /readyz /startupz /metrics",
    "TENURE_HEALTH_HOST": "on which address a worker serves them (127.0.0.1)",
    "TENURE_WEB_HOST": "on which address `tenure serve` listens (127.0.0.1)",
    "TENURE_WEB_PORT": "on which port `tenure serve` listens (7117)",
    "TENURE_WEB_TOKEN": "a web token, or its hash: whoever has it is admin of the HTTP API and the dashboard",
    "TENURE_WEB_TOKENS": "web tokens with names and roles: ann:operate:TOKEN,grafana:read:TOKEN",
    "TENURE_WEB_USERS": "people with names, roles and passwords (or hashes: tenure serve --hash): ann:operate:PASSWORD",
    "TENURE_WEB_PROXY": "addresses of proxies that say who asks: 10.0.0.7,10.1.0.0/16",
    "TENURE_WEB_PROXY_SECRET": "what a trusted proxy sends as x-tenure-proxy-secret; alone or with its address",
    "TENURE_WEB_PROXY_USER": "in which header a trusted proxy names the person (x-forwarded-user)",
    "TENURE_WEB_PROXY_GROUPS": "in which header a trusted proxy lists their groups (x-forwarded-groups)",
    "TENURE_WEB_OIDC_ISSUER": "who logs people in by OpenID Connect: https://login.example.com/realms/ours",
    "TENURE_WEB_OIDC_CLIENT": "the client id that the provider gave this server",
    "TENURE_WEB_OIDC_SECRET": "the client secret, if the provider gave one",
    "TENURE_WEB_OIDC_URL": "where browsers reach this server, with its prefix: https://tenure.example.com",
    "TENURE_WEB_OIDC_USER": "the claim with the person's name for the audit (email, if it is verified)",
    "TENURE_WEB_OIDC_GROUPS": "the claim with the person's groups (groups)",
    "TENURE_WEB_OIDC_SCOPE": "what the provider is asked for (openid profile email)",
    "TENURE_WEB_GROUPS": "which group has which role, for a proxy or OIDC: sre=admin+reveal,dev=operate,*=read",
    "TENURE_WEB_REDACT": "more payload fields whose values are not shown: iban,birthday",
    "TENURE_ENCRYPTION_KEYS": "keys of encrypted payloads, for `keys_from_env()`: k2:BASE64,k1:BASE64,digest:BASE64",
    "TENURE_DRILLS": "whether drills may be played on this database: allow or forbid (allow)",
    "TENURE_TERMINATION_GRACE_SECONDS": "how long the orchestrator waits after SIGTERM, for `tenure doctor` to check",
}

_CHOOSES = "names programs to run or the files they are run with, and whoever wrote the folder would choose them"
# What a settings file must not have: a folder that somebody was given would decide it, or a secret would lie in it.
NEVER_IN_FILES = {
    "TENURE_PG_BIN": _CHOOSES,
    "TENURE_HOME": _CHOOSES,
    "TENURE_ENCRYPTION_KEYS": "has secret keys, and this file is one of many in its folder",
}

# The value of a setting that nobody set; a name that is not here has no default.
DEFAULTS = {
    "TENURE_SCHEMA": DEFAULT_SCHEMA,
    "TENURE_SLOTS": "20",
    "TENURE_LEASE_SECONDS": "90",
    "TENURE_DRAIN_SECONDS": "25",
    "TENURE_POLL_SECONDS": "2",
    "TENURE_GRACE_SECONDS": "6",
    "TENURE_HEALTH_HOST": "127.0.0.1",
}


def check_names(environ: Mapping[str, str]) -> None:
    """Refuse unknown TENURE_* variables, and name the nearest known one."""
    for name in environ:
        known = name.removesuffix("_FILE") in KNOWN or name in KNOWN
        if name.startswith("TENURE_") and not known and not name.startswith("TENURE_TEST_"):
            raise BadSettings(f"unknown setting {name}: did you mean {nearest(name, KNOWN)}?")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like this one."""
    return difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)[0]


def masked(name: str, value: str) -> str:
    """The value with its secrets replaced by ***."""
    if _SECRET.search(name):
        return "***"
    if name == "TENURE_SHARDS":
        return ",".join(masked("", part) for part in BETWEEN_SHARDS.split(value))
    return _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", value)
