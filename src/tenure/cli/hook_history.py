"""Commands of `tenure hooks` about what is kept: send it again since a time, or erase it."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import click

from .. import operate, postgres
from ..errors import NoEndpoint
from ..postgres.connection import QueueConnection
from ..telemetry.log import printable
from ..verbs import endpoints, operators
from ..verbs.questions import clock
from .asking import agreed, attended
from .database import opened
from .hook_changes import EndpointId, hooks_at, missing, queue_at
from .operators import answer, me, noting
from .option_types import Span

BATCH = 500


@click.command("replay", short_help="Send an endpoint again all that is kept since a time.")
@click.argument("id", type=EndpointId())
@click.option("--since", "seconds", type=Span(), required=True, help="What was sent in the last 2h, 7d …")
@click.option("--dry-run", is_flag=True, help="Say how many webhooks match, and send none.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@noting
def replay(
    id: UUID,
    seconds: float,
    dry_run: bool,
    yes: bool,
    reason: str,
    as_json: bool,
    database_url: str | None,
    schema: str | None,
) -> None:
    """Send an endpoint again what it wants and is kept since a time, the oldest first, each under its own id.

    Webhooks that it has never seen count too: it may have been added since. At most 10,000 at a time.
    """
    with opened(database_url, schema) as database, hooks_at(database) as conn:
        since = postgres.run(conn, clock(), database.schema) - timedelta(seconds=seconds)
        found = postgres.run(conn, endpoints.endpoints(id=id), database.schema)
        if not found or found[0].state == "disabled":
            raise NoEndpoint(f"{id} is disabled: `tenure hooks resume` it first" if found else missing(id))
        ids = postgres.run(conn, endpoints.kept_webhooks(id, since), database.schema)
        webhooks = f"{len(ids):,} webhook{'s' * (len(ids) != 1)}"
        if dry_run or not ids:
            would = f"{webhooks} would be sent again" if ids else "nothing to send again: none is kept since then"
            answer(as_json, would, endpoint=id, matched=len(ids), dry_run=dry_run, sent=0)
            return
        if not yes:
            attended(f"replay would send {webhooks} again")
            agreed(f"send {webhooks} again?")
        line, sent = _replayed(conn, database.schema, id, ids, reason)
    said = f"{sent:,} of {webhooks} will be sent again · line {line} of the audit"
    answer(as_json, said, endpoint=id, matched=len(ids), dry_run=False, sent=sent, action=line)


def _replayed(conn: QueueConnection, schema: str, id: UUID, ids: list[UUID], reason: str) -> tuple[int, int]:
    """In batches under one line of the audit; its number, and how many."""
    actor, queue, sent = me(), queue_at(conn, schema), 0
    line = postgres.run(
        conn, operators.begin_audit(actor.name, actor.via, "replay", f"webhooks to {id}", reason), schema
    )
    for first in range(0, len(ids), BATCH):
        with conn.transaction():
            again = endpoints.resend_webhook(id, ids[first : first + BATCH], queue=queue)
            done = len(postgres.run(conn, again, schema))
            postgres.run(conn, operators.mark(line, done, done=False), schema)
        sent += done
    postgres.run(conn, operators.mark(line, 0, done=True), schema)
    operate.sealed(conn, schema)
    return line, sent


@click.command("erase", short_help="Erase what is kept of a tenant: endpoints, bodies, calls.")
@click.argument("tenant")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@noting
def erase(tenant: str, yes: bool, reason: str, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """Erase what is kept of TENANT: its endpoints with their secrets, the bodies that were sent, the log of calls.

    What waits to be sent finds nothing and fails. The audit does not keep the name.
    """
    if not yes:
        attended(f"erase would erase every endpoint and webhook of the tenant {printable(tenant)}")
        agreed(f"erase every endpoint and webhook of the tenant {printable(tenant)}?")
    total = [0, 0, 0]
    with opened(database_url, schema) as database, hooks_at(database) as conn:
        while True:
            erasing = endpoints.erase_tenant(tenant)
            found = operate.noted(conn, erasing, me(), erasing.name, "a tenant", database.schema, reason=reason)
            total = [before + more for before, more in zip(total, found, strict=True)]
            if found[1] < endpoints.FORGET_MAX:
                break
    made = dict(zip(("endpoints", "webhooks", "deliveries"), total, strict=True))
    each = [
        f"{n:,} {name[:-1] if n == 1 else name}"
        for n, name in zip(total, ("endpoints", "webhooks", "calls"), strict=True)
    ]
    answer(as_json, f"erased {each[0]}, {each[1]} and {each[2]}", **made)
