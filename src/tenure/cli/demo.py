"""`tenure demo`: a first look, from no database at all to a race that was won."""

from __future__ import annotations

import click

from .. import __version__
from ..errors import NO
from .database import Database, opened
from .drill import describe


@click.command("demo")
@click.option("--database-url", metavar="URL", help="Use this database instead of the embedded Postgres.")
def command(database_url: str | None) -> None:
    """See it work: embedded Postgres, the lease race, a hundred receipts.

    Everything happens in throw-away schemas, which are removed again, and in processes that end with the demo.
    """
    from ..drills.signals import endable
    from ..drills.teller import echo

    echo()
    echo(f"  Tenure {__version__}, durable work in Postgres")
    echo()
    with endable(), opened(database_url, None, leave_nothing=True) as database:
        echo(describe(database))
        echo(_line("schema", _schema(database)))
        ok = _race(database) & _receipts(database)
    _farewell(ok, embedded=database.source == "embedded")
    if not ok:
        raise click.exceptions.Exit(NO)


def _schema(database: Database) -> str:
    """The embedded Postgres is ours to migrate; a database of the user's own is left as it is."""
    from .. import db, migrate

    if database.source != "embedded":
        return "left as it is: the demo works in throw-away schemas"
    with db.connect(database.url, application_name="tenure demo") as conn:
        done = migrate.apply(conn, database.schema)
    return f"{database.schema}, {'migrated' if done else 'up to date'} (migration {migrate.newest()})"


def _race(database: Database) -> bool:
    from ..drills.lease_race import lease_race
    from ..drills.teller import Plain, echo

    echo()
    echo("  The lease race: worker-A is stopped in mid-receipt, worker-B takes over, worker-A comes back.")
    echo()
    teller = Plain()
    verdict = lease_race(database.url, teller.event)
    teller.verdict(verdict)
    return verdict.ok


def _receipts(database: Database) -> bool:
    from ..drills.receipts import receipts
    from ..drills.teller import Plain, echo

    orders = 100
    echo()
    echo(_line("shop", f"{orders} orders, each with its send_receipt in the order's own transaction"))
    verdict = receipts(database.url, orders=orders)
    if verdict.ok:
        echo(_line("workers", f"{orders} receipts claimed and completed in {verdict.seconds:.1f} s, each once"))
    else:
        Plain().verdict(verdict)
    return verdict.ok


def _farewell(ok: bool, *, embedded: bool) -> None:
    from ..drills.teller import echo

    echo()
    if not ok:
        echo("  The demo failed. The race alone, as JSON, for a report:  tenure drill lease-race --json")
        return
    echo(_line("next", "tenure drill lease-race --unfenced       the same race without the fence: two receipts"))
    if embedded:
        echo(_line("", "tenure pg psql                           look around in the embedded Postgres"))
    echo()


def _line(word: str, text: str) -> str:
    return f"  {word:<9}  {text}".rstrip()
