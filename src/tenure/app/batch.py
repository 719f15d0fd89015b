"""A batch: rows that are sent together and have one end, after which something follows."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ParamSpec
from uuid import UUID

from msgspec.structs import replace

from ..errors import BadSettings, InvalidPayload
from ..model.rows import NewRow
from ..postgres.runner import run
from ..postgres.transactions import whole, whole_awaiting
from ..verbs.batches import GROUP_MAX, WAITING_SECONDS, check_batch_name, open_group
from ..verbs.sending import enqueue
from ..verbs.statement import Statement
from .handler import Handler
from .sender import Sender

CHAINED_MAX = 10_000  # rows of a batch that follows another: one statement makes them all due

P = ParamSpec("P")
Then = Handler[..., ..., Any] | Sender[...] | NewRow | None


class Batch:
    """`with inbox.batch(conn, then=report) as batch:` or `async with`: its rows are sent at the end of the block.

    They stand in the caller's transaction, so the batch is closed when that commits: nothing can be added later. When
    the last of them has ended, well or not, `then` runs once: a handler, a row of one, or another batch. After the
    block `.id` is its number, `.ids` are those of its rows, and `.then_id` that of the row that follows.
    """

    def __init__(self, conn: Any, schema: str, then: Then | Batch = None, name: str | None = None) -> None:
        if not isinstance(then, Handler | Sender | NewRow | Batch | None):
            raise BadSettings(f"then={then!r} must be a handler, a row of one (report.row(day=1)) or another batch")
        check_batch_name(name)
        self._conn, self._schema, self._name, self.then = conn, schema, name, then
        self.rows: list[NewRow] = []
        self.id: int | None = None  # its number, once it is sent
        self.ids: list[UUID] = []  # of its rows, in the order in which they were added
        self.then_id: UUID | None = None  # of the row that follows

    def add(self, handler: Handler[..., P, Any] | Sender[P], *payload: P.args, **fields: P.kwargs) -> None:
        """One more row: what `handler.enqueue(conn, …)` would send."""
        if self.id is not None:
            raise InvalidPayload(f"batch {self.id} is closed: its rows are counted, start another")
        if not isinstance(handler, Handler | Sender):
            raise BadSettings(f"batch.add({handler!r}) takes a handler first, then its arguments")
        if len(self.rows) == GROUP_MAX:
            raise InvalidPayload(f"a batch has at most {GROUP_MAX} rows: start another")
        self.rows.append(handler.row(*payload, **fields))

    # -- sending

    def __enter__(self) -> Batch:
        whole(self._conn)  # refuses what is no connection before the rows are made
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            with self._unsent_if_refused(), whole(self._conn):
                _each(self._sent(), lambda statement: run(self._conn, statement, self._schema))

    async def __aenter__(self) -> Batch:
        whole_awaiting(self._conn)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            sending, answer = self._sent(), None
            with self._unsent_if_refused():
                async with whole_awaiting(self._conn):
                    while True:
                        try:
                            statement = sending.send(answer)
                        except StopIteration:
                            return
                        answer = await run(self._conn, statement, self._schema)

    @contextmanager
    def _unsent_if_refused(self) -> Iterator[None]:
        """What is refused was not sent: it and the batches that follow are as they were, and can be sent again."""
        before: list[tuple[Batch, int | None, list[UUID], UUID | None]] = []
        each: Then | Batch = self
        while isinstance(each, Batch):
            before.append((each, each.id, each.ids, each.then_id))
            each = each.then
        try:
            yield
        except BaseException:
            for batch, id, ids, then_id in before:
                batch.id, batch.ids, batch.then_id = id, ids, then_id
            raise

    def _sent(self, *, waiting: bool = False) -> Generator[Statement[Any], Any, None]:
        """What is to be run, one after the other: first what follows, which waits, then the rows."""
        if self.id is not None:
            step = "fill the one that follows with add, and give it as then= without a `with` of its own"
            raise InvalidPayload(f"batch {self.id} was sent already: {step if waiting else 'start another'}")
        then_group, then, empty = None, self.then, list[Batch]()
        while isinstance(then, Batch) and not then.rows:
            empty.append(then)
            then = then.then  # an empty one ends when it would begin
        if isinstance(then, Batch):
            yield from then._sent(waiting=True)
            then_group = then.id
        elif then is not None:
            row = then if isinstance(then, NewRow) else then.row()
            self.then_id = (yield enqueue(_later(row))).id
            for each in empty:
                each.then_id = self.then_id
        if waiting and len(self.rows) > CHAINED_MAX:
            n = len(self.rows)
            raise InvalidPayload(f"a batch that follows another has at most {CHAINED_MAX} rows, not {n}: send it later")
        rows = [_later(row) for row in self.rows] if waiting else self.rows
        self.id, self.ids = yield open_group(rows, name=self._name, then_row=self.then_id, then_group=then_group)


def _later(row: NewRow) -> NewRow:
    """The row as it waits for its turn."""
    if row.idempotency_key is not None:
        raise InvalidPayload(
            f"what follows a batch has idempotency_key={row.idempotency_key!r}: it is a new row, leave it out"
        )
    if row.at is not None or row.delay_seconds:
        when = f"delay_seconds={row.delay_seconds:g}" if row.at is None else f"at={row.at.isoformat()}"
        step = "leave it out, and let its handler send a row for later"
        raise InvalidPayload(f"what follows a batch has {when}, and is due when the batch has ended: {step}")
    return replace(row, delay_seconds=WAITING_SECONDS)


def _each(statements: Generator[Statement[Any], Any, None], act: Any) -> None:
    answer = None
    while True:
        try:
            statement = statements.send(answer)
        except StopIteration:
            return
        answer = act(statement)
