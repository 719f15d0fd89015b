"""`tenure ring`: which live worker owns how many buckets, and who owns a given key."""

from __future__ import annotations

import json
from typing import Any

import click

from .. import db, migrate
from ..errors import NO
from ..model import BUCKETS
from ..questions import bucket as bucket_of
from ..questions import live_workers
from ..ring import Ring
from .database import opened, options
from .table import table

BAR_MAX = 40


@click.command()
@click.option("--key", metavar="KEY", help="Who owns the bucket of this partition key?")
@click.option("--bucket", type=click.IntRange(0, BUCKETS - 1), help="Who owns this bucket?")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@options
def command(key: str | None, bucket: int | None, as_json: bool, database_url: str | None, schema: str | None) -> None:
    """Show how the buckets are dealt out to the live workers.

    The ring spreads work: a row is looked for by the owner of its bucket first, and by everybody else after a while.
    """
    if key is not None and bucket is not None:
        raise click.UsageError("--key and --bucket are two questions: ask one")
    with opened(database_url, schema) as database, db.connect(database.url) as conn:
        migrate.require(conn, database.schema)
        ring = Ring(worker.id for worker in db.run(conn, live_workers(), database.schema))
        if key is not None:
            bucket = db.run(conn, bucket_of(key), database.schema)
    if bucket is None:
        click.echo(json.dumps(_document(ring)) if as_json else _table(ring))
        return
    owner = ring.owner_of(bucket) if ring.workers else None
    asked = {"key": key} if key is not None else {}
    click.echo(
        json.dumps({"schema": 1, **asked, "bucket": bucket, "owner": owner}) if as_json else _said(key, bucket, owner)
    )
    if owner is None:
        raise click.exceptions.Exit(NO)


def _said(key: str | None, bucket: int, owner: str | None) -> str:
    where = f"bucket {bucket}" if key is None else f"key {key!r} is in bucket {bucket}, which"
    return f"{where} is owned by {owner}" if owner else f"{where} has no owner: no worker is alive"


def _document(ring: Ring) -> dict[str, Any]:
    return {"schema": 1, "buckets": BUCKETS, "workers": [{"id": id, "buckets": n} for id, n in _shares(ring)]}


def _table(ring: Ring) -> str:
    if not ring.workers:
        return "no live workers: nobody owns a bucket"
    most = max(n for _, n in _shares(ring))
    lines = [(id, str(n), f"{n / BUCKETS:.1%}", "█" * round(BAR_MAX * n / most)) for id, n in _shares(ring)]
    return table(("worker", "buckets", "share", ""), lines)


def _shares(ring: Ring) -> list[tuple[str, int]]:
    return [(worker, len(ring.buckets_of(worker))) for worker in ring.workers]
