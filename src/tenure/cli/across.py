"""`tenure queues limit --across`: a limit for all inboxes together, dealt out, with one act in every audit."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import click
from psycopg import Error

from .. import operate, postgres, settings
from ..console.terminal import echo, sentence
from ..errors import TRY_LATER, BadSettings, NoDatabase
from ..model.shares import Deal
from ..postgres import migrate
from ..postgres.connection import QueueConnection, soon_given_up
from ..postgres.patience import Patience
from ..telemetry.log import printable
from ..verbs import operators, queues
from ..verbs.shares import Held, last_said, shares, take_share
from ..worker.dealing import Dealer
from ..worker.places import Places
from .inbox_told import ACT, Told, raise_mistakes, side_by_side, tell_away, why_away
from .limit_options import in_options
from .operators import me

TRIES, TRY_SECONDS = 5, 0.2
LOCK_SECONDS = 5.0  # for a setting of the queue that somebody else changes
PATIENCE = Patience(lock_seconds=LOCK_SECONDS, statement_seconds=10)  # the others hold their queue while one is silent


def deal_in_all(urls: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """Deal a limit out; it is written in every inbox before one commits it, so if one refuses nothing is changed."""
    whole = _whole(given, len(urls))
    schema = settings.load(schema=given["schema"]).schema
    act = ACT.set(secrets.token_hex(4))
    try:
        with ExitStack() as stack:
            conns, said = _connected(urls, given, schema, stack)
            deal = Deal(1 + said, 0, tuple(sorted(urls)), *whole)
            _write(conns, deal, given, schema)
            failed = _commit(conns, deal, given["name"], schema)
            if not failed:
                _raise(conns, urls, given["name"], schema)
            _tell(conns, deal, given, schema, failed)
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
    running, burst = params["max_running"], params["burst"]
    if running is not None and running < n:
        raise click.UsageError(f"--max-running {running} cannot be dealt over {n} inboxes: give {n} or more")
    if burst is not None and burst < n:
        of = (
            f"--burst {burst}"
            if given["burst"] is not None
            else f"--rate {given['rate_per_second']:g} alone: its burst"
        )
        raise click.UsageError(f"{of} cannot be dealt over {n} inboxes: give --burst {n} or more")
    return params["max_running"], params["rate_per_second"], params["burst"]


def _connected(
    urls: Mapping[str, str], given: Mapping[str, Any], schema: str, stack: ExitStack
) -> tuple[dict[str, QueueConnection], int]:
    """A connection to each, and what was said last; who is away is named, and then nothing is done."""
    conns: dict[str, QueueConnection] = {}
    said = [0]

    def opened(inbox: str) -> None:
        name = "tenure queues"
        conn = postgres.connect(soon_given_up(urls[inbox]), application_name=name, patience=PATIENCE, schema=schema)
        stack.callback(conn.close)  # and no rollback, which would wait for a silent one; the server rolls back
        conns[inbox] = conn
        migrate.require(conn, schema)
        said.append(postgres.run(conn, last_said(given["name"]), schema))

    _all_or_nothing(urls, opened, given)
    return {inbox: conns[inbox] for inbox in urls}, max(said)


def _all_or_nothing(inboxes: Iterable[str], ask: Callable[[str], None], given: Mapping[str, Any]) -> None:
    """Ask all side by side; if one does not answer or refuses, it is named, and the exit code is 75."""

    def asked(inbox: str) -> Told:
        try:
            ask(inbox)
        except Exception as error:
            return Told(inbox, (), error=error)
        return Told(inbox, ())

    answers = side_by_side({inbox: partial(asked, inbox) for inbox in inboxes})
    raise_mistakes(answers)
    here, away = ([each for each in answers if (each.error is None) is well] for well in (True, False))
    if not away:
        return
    if given["as_json"]:
        none = [{"inbox": each.inbox, "changed": False} for each in here]
        why = [{"inbox": each.inbox, "changed": False, "error": why_away(each)} for each in away]
        echo(json.dumps({"schema": 1, "act": ACT.get(), "queue": given["name"], "inboxes": none + why}, sort_keys=True))
    tell_away(away, len(here) + len(away))
    echo("nothing was changed: a limit is dealt when all inboxes take it", err=True)
    raise click.exceptions.Exit(TRY_LATER)


def _held(conn: QueueConnection, schema: str) -> list[Held]:
    return postgres.run(conn, shares(), schema)


def _write(conns: Mapping[str, QueueConnection], deal: Deal, given: Mapping[str, Any], schema: str) -> None:
    """Every inbox goes down to its share, with a line in its audit; nothing is committed yet."""
    said = {"max_running": deal.max_running, "rate_per_second": deal.rate_per_second, "burst": deal.burst}
    words = [f"{name}={value:g}" for name, value in said.items() if value is not None]
    target, who = " ".join([given["name"], *words, f"across={','.join(deal.inboxes)}"]), me()

    def write(inbox: str) -> None:
        conn = conns[inbox]
        conn.autocommit = False
        postgres.run(conn, operators.lock_within(LOCK_SECONDS), schema)  # claims wait for us while we wait
        taking = take_share(given["name"], deal, inbox)
        if not operate.noted(conn, taking, who, "limit", target, schema, reason=given["reason"]):
            raise BadSettings("somebody dealt this limit at the same time: run it again")

    _all_or_nothing(conns, write, given)


def _commit(conns: Mapping[str, QueueConnection], deal: Deal, queue: str, schema: str) -> list[Told]:
    """One after the other, until one fails: that one. When all have it they are told so: workers may deal it on."""
    left = dict(conns)
    for inbox, conn in conns.items():
        try:
            conn.commit()
        except (Exception, KeyboardInterrupt) as error:
            for each in left.values():
                each.close()  # at once: claims wait for what is written and not committed
            why = error if isinstance(error, Exception) else NoDatabase("interrupted before it answered")
            return [Told(inbox, (), error=why)]
        del left[inbox]
    for inbox, conn in conns.items():
        with suppress(Error):  # one that knows is enough
            conn.autocommit = True
            postgres.run(conn, take_share(queue, deal.among(deal.inboxes), inbox), schema)
            operate.sealed(conn, schema)
    return []


def _raise(conns: Mapping[str, QueueConnection], urls: Mapping[str, str], queue: str, schema: str) -> None:
    """Let them use their shares, if that is possible soon; else workers do it when rows have ended."""
    dealer, (here, conn) = Dealer(Places(urls, schema)), next(iter(conns.items()))
    with suppress(Error):
        for _ in range(TRIES):
            dealer.tend(conn, here)
            if all(each.raised for other in conns.values() for each in _held(other, schema) if each.queue == queue):
                return
            time.sleep(TRY_SECONDS)


def _tell(
    conns: Mapping[str, QueueConnection], deal: Deal, given: Mapping[str, Any], schema: str, failed: Sequence[Told]
) -> None:
    """What each has now; then who has failed and where it was not begun, and the exit code is 75."""
    inboxes, name = list(conns), given["name"]
    begun = inboxes[: inboxes.index(failed[0].inbox)] if failed else inboxes
    held, lost = _of_each({inbox: conns[inbox] for inbox in begun}, name, schema)
    failed, not_begun = [*lost, *failed], inboxes[len(begun) + 1 :]
    if given["as_json"]:
        told: list[dict[str, Any]] = [
            {"inbox": inbox, "changed": True, **each.share._asdict(), "running": each.running, "raised": each.raised}
            for inbox, each in held.items()
        ]
        told += [{"inbox": each.inbox, "error": why_away(each)} for each in failed]
        told += [{"inbox": inbox, "changed": False, "error": "not begun"} for inbox in not_begun]
        whole = {each: getattr(deal, each) for each in ("max_running", "rate_per_second", "burst")}
        echo(json.dumps({"schema": 1, "act": ACT.get(), "queue": name, **whole, "inboxes": told}, sort_keys=True))
    else:
        for inbox, each in held.items():
            later = "" if each.raised else ", when no inbox runs more than its share"
            echo(printable(f"{inbox}: {name}: {_words(each)}{later}"))
    if failed:
        _tell_failed(failed, not_begun)


def _of_each(conns: Mapping[str, QueueConnection], queue: str, schema: str) -> tuple[dict[str, Held], list[Told]]:
    """What each has of this limit, and who does not say it any more."""
    held, lost = dict[str, Held](), list[Told]()
    for inbox, conn in conns.items():
        try:
            conn.autocommit = True
            held.update((inbox, each) for each in _held(conn, schema) if each.queue == queue)
        except Error as error:
            lost.append(Told(inbox, (), error=error))
    return held, lost


def _tell_failed(failed: Sequence[Told], not_begun: Sequence[str]) -> None:
    for each in failed:
        told = f"inbox {each.inbox}: {why_away(each)}; `tenure audit --inbox {each.inbox}` says whether it was done"
        sentence(f"tenure: {told}", err=True)
    if not_begun:
        sentence(f"not begun in {', '.join(not_begun)}", err=True)
    echo("the limit is not dealt in all inboxes: run it again", err=True)
    raise click.exceptions.Exit(TRY_LATER)


def _words(held: Held) -> str:
    share = held.share
    said = [] if share.max_running is None else [f"{held.running} of {share.max_running} processing"]
    if share.rate_per_second is not None:
        said.append(f"{share.rate_per_second:g} per second, burst {share.burst}")
    return " · ".join(said)
