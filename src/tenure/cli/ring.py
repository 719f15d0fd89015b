"""`tenure ring`: which live worker owns how many buckets, and who owns a given key."""

from __future__ import annotations

import json
from typing import Any

import click

from .. import postgres
from ..console.terminal import echo
from ..errors import NO
from ..model.ring import Ring, rings_of
from ..model.rows import BUCKETS
from ..postgres import migrate
from ..verbs.questions import bucket as bucket_of
from ..verbs.questions import live_workers
from .database import opened, options
from .output import show
from .table import draws

BAR_MAX = 20
Rings = dict[tuple[str, ...], Ring]


@click.command()
@click.option("--key", metavar="KEY", help="Who owns the bucket of this partition key?")
@click.option("--bucket", type=click.IntRange(0, BUCKETS - 1), help="Who owns this bucket?")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
def command(key: str | None, bucket: int | None, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """Show how many buckets each live worker owns.

    Workers that serve the same queues share a ring, which spreads the ordered keys: the owner of a bucket claims its
    keys first, other workers at their next poll. Unordered rows are claimed by time, by all of them.
    """
    if key is not None and bucket is not None:
        raise click.UsageError("--key and --bucket contradict each other: give one")
    with opened(database_url, schema) as database, postgres.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        alive = postgres.run(conn, live_workers(), database.schema)
        rings = rings_of(alive)
        if key is not None:
            bucket = postgres.run(conn, bucket_of(key), database.schema)
    if bucket is None:
        _show(rings, as_json)
        return
    owners = {",".join(queues): ring.owner_of(bucket) for queues, ring in rings.items()}
    asked = {"key": key} if key is not None else {}
    answer = {"schema": 1, **asked, "bucket": bucket, "owner": next(iter(owners.values()), None), "owners": owners}
    echo(json.dumps(answer, sort_keys=True) if as_json else _said(key, bucket, owners))
    if not owners:
        raise click.exceptions.Exit(NO)


def _said(key: str | None, bucket: int, owners: dict[str, str]) -> str:
    where = f"bucket {bucket}" if key is None else f"key {key!r} is in bucket {bucket}, which"
    if not owners:
        return f"{where} has no owner: no worker is alive"
    if len(owners) == 1:
        return f"{where} is owned by {next(iter(owners.values()))}"
    return "\n".join(f"{where} is owned by {owner} for {queues}" for queues, owner in owners.items())


def _document(rings: Rings) -> dict[str, Any]:
    workers = [{"id": id, "buckets": n, "queues": list(queues)} for queues, id, n in _shares(rings)]
    return {"schema": 1, "buckets": BUCKETS, "workers": workers}


def _show(rings: Rings, as_json: bool) -> None:
    """Each worker with its share; on a terminal also as a bar."""
    if as_json:
        echo(json.dumps(_document(rings), sort_keys=True))
        return
    shares = _shares(rings)
    most = max((n for *_, n in shares), default=0)
    head = ("worker", "buckets", "share", *([""] if draws() else []), "queues")
    lines = [
        (id, str(n), f"{n / BUCKETS:.1%}", *(["█" * round(BAR_MAX * n / most)] if draws() else []), ",".join(queues))
        for queues, id, n in shares
    ]
    show(head, lines, "no live workers: nobody owns a bucket")


def _shares(rings: Rings) -> list[tuple[tuple[str, ...], str, int]]:
    return [(queues, id, len(ring.buckets_of(id))) for queues, ring in rings.items() for id in ring.workers]
