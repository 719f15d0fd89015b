"""`tenure drill`: force a race on a real Postgres and print the proof."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import NO
from .database import Database, opened


@click.group("drill")
def command() -> None:
    """Force a race on a real Postgres and print the proof.

    A drill works in a throw-away schema, tenure_drill_ and eight letters, and removes it again, also after Ctrl-C.
    It touches nothing else.
    """


@command.command("lease-race")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; the last one is the verdict.")
@click.option("--on", "url", metavar="URL", help="The database to use [env: TENURE_DATABASE_URL; embedded].")
@click.option("--unfenced", is_flag=True, help="The control: the same race without the fence writes twice.")
@click.option(
    "--lease-seconds",
    type=click.FloatRange(0.05, 60),
    default=1.0,
    show_default=True,
    help="How long worker-A's lease is.",
)
def lease_race(as_json: bool, url: str | None, unfenced: bool, lease_seconds: float) -> None:
    """Two processes, one of them stopped past its lease.

    worker-A claims a row and is stopped (SIGSTOP) in the middle of it. Its lease runs out, worker-B claims the row
    with token 2 and completes it. Then worker-A goes on: its write must be refused. Exit 0 if it was, 1 if not.
    """
    from ..drills import lease_race as drill
    from ..drills.signals import endable
    from ..drills.teller import Json, Plain, Teller, echo

    teller: Teller = Json() if as_json else Plain()
    with endable(), opened(url, None, "--on", leave_nothing=True) as database:
        if not as_json:
            echo(describe(database))
            echo()
        verdict = drill.lease_race(database.url, teller.event, lease_seconds=lease_seconds, fenced=not unfenced)
    teller.verdict(verdict)
    if not as_json:
        echo()
        echo(_closing(verdict.ok, unfenced, verdict.seconds))
    if not verdict.ok:
        raise click.exceptions.Exit(NO)


def describe(database: Database) -> str:
    """Which Postgres this is, how it came up, and where its rows live; fails here if it does not answer."""
    from .. import db, embedded

    if database.source == "embedded":
        folder = str(embedded.home_folder(embedded.binaries().major)).replace(str(Path.home()), "~", 1)
        return f"  postgres   {database.words:<38}  {folder}"
    with db.connect(database.url, application_name="tenure drill") as conn:
        major, minor = divmod(conn.info.server_version, 10000)
        return (
            f"  postgres   {f'{major}.{minor}, given by {database.source}':<38}  {conn.info.dbname} on {conn.info.host}"
        )


def _closing(ok: bool, unfenced: bool, seconds: float) -> str:
    if not ok:
        return "   The drill failed. Its lines as JSON, for a report:  tenure drill lease-race --json"
    if unfenced:
        return (
            f"   Duplicate shown: one order, two receipts, {seconds:.1f} s. "
            "The same race with the fence:  tenure drill lease-race"
        )
    return (
        f"   Two real processes, one real Postgres, {seconds:.1f} s. "
        'Run it on yours:  tenure drill lease-race --on "$DATABASE_URL"'
    )
