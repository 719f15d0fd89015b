"""`tenure queues limit --across`: a limit for all inboxes together, dealt out, with one act in every audit."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import click

from .. import operate, postgres, settings
from ..console.terminal import echo
from ..errors import TRY_LATER, BadSettings
from ..model.shares import Deal
from ..postgres import migrate
from ..postgres.connection import QueueConnection, soon_given_up
from ..telemetry.log import printable
from ..verbs import queues
from ..verbs.shares import Held, shares, take_share
from ..worker.dealing import Dealer
from ..worker.places import Places
from .inbox_told import ACT, Told, judged, side_by_side, tell_away
from .limit_options import in_options
from .operators import me

TRIES, TRY_SECONDS = 5, 0.2


def deal_in_all(urls: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """Deal a limit out; if one inbox does not answer nothing is changed, and the exit code is 75."""
    whole = _whole(given, len(urls))
    schema = settings.load(schema=given["schema"]).schema
    act = ACT.set(secrets.token_hex(4))
    try:
        with ExitStack() as stack:
            conns = _connected(urls, schema, stack)
            said = 1 + max((each.deal.said for conn in conns.values() for each in _held(conn, schema)), default=0)
            deal = Deal(said, 0, tuple(sorted(urls)), *whole)
            _take(conns, deal, given, schema)
            _raise(conns, urls, given["name"], schema)
            _tell(conns, deal, given, schema)
    finally:
        ACT.reset(act)


def _whole(given: Mapping[str, Any], n: int) -> tuple[int | None, float | None, int | None]:
    """The limits for all together; a usage error if they cannot be dealt over so many."""
    for name, option in (("max_per_key", "--max-per-key"), ("clear", "--clear")):
        if given[name]:
            raise click.UsageError(f"{option} is the same in each inbox: give it without --across")
    try:
        params = queues.limit(
            given["name"],
            max_running=given["max_running"],
            rate_per_second=given["rate_per_second"],
            burst=given["burst"],
        ).params
    except BadSettings as refused:
        raise click.UsageError(in_options(str(refused))) from None
    for name, option in (("max_running", "--max-running"), ("burst", "--burst")):
        if (number := params[name]) is not None and number < n:
            raise click.UsageError(f"{option} {number} cannot be dealt over {n} inboxes: give {n} or more")
    return params["max_running"], params["rate_per_second"], params["burst"]


def _connected(urls: Mapping[str, str], schema: str, stack: ExitStack) -> dict[str, QueueConnection]:
    """A connection to each; who is away is named, and then nothing is done."""
    conns: dict[str, QueueConnection] = {}

    def opened(inbox: str) -> Told:
        try:
            conn = postgres.connect(soon_given_up(urls[inbox]), application_name="tenure queues", schema=schema)
            conns[inbox] = stack.enter_context(conn)
            migrate.require(conn, schema)
        except Exception as error:
            return Told(inbox, (), error=error)
        return Told(inbox, ())

    _, away = judged("queues limit", side_by_side({inbox: partial(opened, inbox) for inbox in urls}))
    if away:
        tell_away(away, len(urls))
        echo("nothing was changed: a limit is dealt when all inboxes answer", err=True)
        raise click.exceptions.Exit(TRY_LATER)
    return {inbox: conns[inbox] for inbox in urls}


def _held(conn: QueueConnection, schema: str) -> list[Held]:
    return postgres.run(conn, shares(), schema)


def _take(conns: Mapping[str, QueueConnection], deal: Deal, given: Mapping[str, Any], schema: str) -> None:
    """Every inbox goes down to its share, with a line in its audit."""
    said = {"max_running": deal.max_running, "rate_per_second": deal.rate_per_second, "burst": deal.burst}
    words = [f"{name}={value:g}" for name, value in said.items() if value is not None]
    target = " ".join([given["name"], *words, f"across={','.join(deal.inboxes)}"])
    done: list[str] = []
    for inbox, conn in conns.items():
        taking = take_share(given["name"], deal, inbox)
        if not operate.noted(conn, taking, me(), "limit", target, schema, reason=given["reason"]):
            for each in done:
                echo(printable(f"{each}: {given['name']}: went down to its share"), err=True)
            raise BadSettings(f"inbox {inbox}: somebody dealt this limit at the same time: run it again")
        done.append(inbox)


def _raise(conns: Mapping[str, QueueConnection], urls: Mapping[str, str], queue: str, schema: str) -> None:
    """Let them use their shares, if that is possible soon; else workers do it when rows have ended."""
    dealer, (here, conn) = Dealer(Places(urls, schema)), next(iter(conns.items()))
    for _ in range(TRIES):
        dealer.tend(conn, here)
        if all(each.raised for other in conns.values() for each in _held(other, schema) if each.queue == queue):
            return
        time.sleep(TRY_SECONDS)


def _tell(conns: Mapping[str, QueueConnection], deal: Deal, given: Mapping[str, Any], schema: str) -> None:
    name = given["name"]
    held = {inbox: each for inbox, conn in conns.items() for each in _held(conn, schema) if each.queue == name}
    if given["as_json"]:
        told = [
            {"inbox": inbox, **each.share._asdict(), "running": each.running, "raised": each.raised}
            for inbox, each in held.items()
        ]
        whole = {each: getattr(deal, each) for each in ("max_running", "rate_per_second", "burst")}
        echo(json.dumps({"schema": 1, "act": ACT.get(), "queue": name, **whole, "inboxes": told}, sort_keys=True))
        return
    for inbox, each in held.items():
        later = "" if each.raised else ", when no inbox runs more than its share"
        echo(printable(f"{inbox}: {name}: {_words(each)}{later}"))


def _words(held: Held) -> str:
    share = held.share
    said = [] if share.max_running is None else [f"{held.running} of {share.max_running} processing"]
    if share.rate_per_second is not None:
        said.append(f"{share.rate_per_second:g} per second, burst {share.burst}")
    return " · ".join(said)
