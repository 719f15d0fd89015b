"""`tenure drill failover`: kill a primary under load, promote its standby, and count what was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import settings
from ..errors import NO

if TYPE_CHECKING:
    from ..drills.stage.said import Said

OF_EACH = frozenset({"job_retried", "lease_lost", "stale_write_blocked", "worker_seen"})  # of each row: too many lines


@click.command("failover", short_help="Kill a primary under load, promote its standby, count what was lost.")
@click.option("--control", is_flag=True, help="The same without a synchronous standby.")
@click.option("--times", type=click.IntRange(1, 100), default=1, show_default=True, help="Promotions in a row.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; the last is the verdict.")
@click.option("-v", "--verbose", is_flag=True, help="Print every event, internal ones too.")
def command(control: bool, times: int, as_json: bool, verbose: bool) -> None:
    """A primary dies under load and its standby is promoted: is anything lost that was acknowledged?

    The drill starts two embedded servers of its own, a primary and a standby by streaming replication, and touches no
    other database. Producers and two real workers have one address with both servers in it. The standby is cut off,
    every process of the primary gets SIGKILL, and the standby is promoted. The control replicates asynchronously: it
    passes if that loses rows, and says how many.

    Exit 0 if every assertion holds, 1 if not.
    """
    from ..console.signals import endable
    from ..console.terminal import echo
    from ..drills.failover.course import perform
    from ..drills.teller import Json, Plain, Teller

    settings.check_drills()
    teller: Teller = Json() if as_json else Plain(verbose=verbose)

    def tell(said: Said) -> None:
        if as_json or verbose or said.event not in OF_EACH:
            teller.event(said)

    with endable():
        verdict = perform(tell, times=times, synchronous=not control)
    teller.verdict(verdict)
    if not as_json:
        echo()
        other = "" if control else " --control"
        guard = "with" if control else "without"
        echo(f"   {verdict.seconds:.1f} s. The same {guard} a synchronous standby:  tenure drill failover{other}")
    if not verdict.ok:
        raise click.exceptions.Exit(NO)
