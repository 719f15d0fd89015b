"""The picture of a stage: rows, leases, ledger, mailbox, workers and ring now, for the page to draw."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ... import sql
from ...errors import telling_line
from ...model.ring import rings_of
from ...model.rows import BUCKETS
from ...verbs import questions

if TYPE_CHECKING:
    from uuid import UUID

    from .stage import Stage

ROWS_MAX = 30
ENTRIES_MAX = 100
OF_ROW = (
    "id", "key", "kind", "status", "token", "attempts", "max_attempts", "worker", "lease_left", "wait_left", "error",
)  # fmt: skip
ROWS = """
SELECT id::text, partition_key, kind, status, lease_generation, attempts, max_attempts, claimed_by,
       extract(epoch FROM lease_expires_at - clock_timestamp())::float8,
       GREATEST(0, extract(epoch FROM available_at - clock_timestamp()))::float8, last_error
FROM tenure.inbox ORDER BY id DESC LIMIT %s"""
COUNTS = "SELECT status, count(*) FROM tenure.inbox GROUP BY status LIMIT 10"
OF_LEDGER = ("order", "step", "worker", "token")
LEDGER = "SELECT order_id, step, worker, token FROM tenure.ledger ORDER BY n DESC LIMIT %s"
OF_MAILBOX = ("order", "worker", "token")
MAILBOX = "SELECT order_id, worker, token FROM tenure.mailbox ORDER BY n DESC LIMIT %s"
OF_TAPE = ("worker", "token", "claimed_at", "ended_at", "outcome")
SHOWN = """SELECT id, kind, status, partition_key, payload, attempts, max_attempts, claimed_by, claimed_at,
       lease_expires_at, lease_generation, fence_token, available_at, idempotency_key,
       finished_at, finished_by, last_error
FROM tenure.inbox
WHERE id = '{id}'"""
AS_TEXT = "SELECT e.key, e.value FROM ({shown}) AS r, json_each_text(row_to_json(r)) AS e LIMIT 100"


def picture(stage: Stage) -> dict[str, Any]:
    """Everything in one document; newest first, and no more than a page can show."""
    return {
        "rows": [_row(row) for row in _named(OF_ROW, stage.sql(ROWS, ROWS_MAX))],
        "counts": dict(stage.sql(COUNTS)),
        "ledger": _named(OF_LEDGER, stage.sql(LEDGER, ENTRIES_MAX)),
        "mailbox": _named(OF_MAILBOX, stage.sql(MAILBOX, ENTRIES_MAX)),
        "workers": [_worker(actor) for actor in stage.actors.values()],
        "ring": _ring(stage),
        "props": asdict(stage.props),
    }


def shown(stage: Stage, id: UUID) -> dict[str, Any] | None:
    """One row as psql shows it, with the SQL to type there, and who held it; None if there is no such row."""
    text = SHOWN.format(id=id)
    columns = stage.sql(AS_TEXT.format(shown=text))
    tape = [(bare(each.worker), each.lease_generation, *each[3:6]) for each in stage.run(questions.tape(id))]
    typed = f"{sql.in_schema(text, stage.schema)};"
    return {"sql": typed, "row": dict(columns), "tape": _named(OF_TAPE, tape)} if columns else None


def _named(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """Times to a tenth of a second, the worker by its name on the stage, the one important line of the error."""
    for name in ("lease_left", "wait_left"):
        row[name] = None if row[name] is None else round(row[name], 1)
    row["worker"] = bare(row["worker"])
    row["error"] = telling_line(row["error"]) or None
    return row


def bare(worker: str | None) -> str | None:
    """The name of a process from its worker id: worker-A of worker-A-8120-3fa9c2d1."""
    return worker and "-".join(worker.split("-")[:2])


def _worker(actor: Any) -> dict[str, Any]:
    return {"name": actor.name, "pid": actor.pid, "role": actor.role, "state": actor.state}


def _ring(stage: Stage) -> dict[str, Any]:
    """The owner of each bucket as a letter, "-" for none: worker-A owns the As."""
    alive = stage.run(questions.live_workers())
    for ring in rings_of(alive).values():
        owners = "".join(str(bare(ring.owner_of(bucket)))[-1] for bucket in range(BUCKETS))
        workers = dict.fromkeys(
            bare(worker) for worker in ring.workers
        )  # a new process may have the name before the old one has left
        return {"workers": list(workers), "owners": owners}
    return {"workers": [], "owners": "-" * BUCKETS}
