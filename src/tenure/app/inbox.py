"""The Inbox: the handlers of an application by kind, and the schema of their rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Never, ParamSpec, cast, overload
from uuid import UUID

from msgspec.structs import replace

from ..errors import BadSettings, UnknownHandler
from ..events import Bus
from ..model.backoff import Backoff
from ..model.declaration import Declaration
from ..model.ended import Ended
from ..model.rows import MAX_ATTEMPTS, Enqueued, NewRow
from ..settings import DEFAULT_SCHEMA, check_schema_name, find, on_citus
from ..telemetry.tracing import Mode, Tracing
from ..verbs.citus_keys import forget_keys
from ..verbs.schedules import Schedule
from ..verbs.statement import Statement
from .author_hooks import Hooks
from .awaiting import id_of, wait_for_end, wait_for_end_async
from .batch import Batch, Then
from .chore import Chore, check_chore
from .clock_times import Cron, cron_of
from .codec import Codec
from .encryption import Encryption
from .function_kind import Pool, check_pool, default_pool
from .handler import Decorator, Handler, Handling, Options
from .kind_limits import Limits, check_limits
from .lifespan import Lifespan, Opening, check_lifespan
from .unique import Unique

P = ParamSpec("P")
AnyHandler = Handler[..., ..., Any]
_SOME_TICK = "2000-01-01T00:00:00Z"  # an example of a time to come


class Inbox:
    """The handlers of an application: `inbox = Inbox()`, then `@inbox.handler("send_receipt")` on its functions.

    Its rows are in the schema given here, or by TENURE_SCHEMA or the settings file, or `tenure`. With a codec, the
    payloads of its handlers are encrypted, unless a handler says encrypt=False. With `citus` (or TENURE_CITUS=on) it
    sends through the door of a Citus cluster, from any node.
    """

    def __init__(
        self,
        *,
        schema: str | None = None,
        trace: Mode | None = None,
        codec: Codec | None = None,
        citus: bool | None = None,
    ) -> None:
        found = find("TENURE_SCHEMA", schema, "schema")
        self.schema = check_schema_name(found.value if found else DEFAULT_SCHEMA)
        self.bus, self.tracing, self.codec, self.hooks, self.citus = Bus(), Tracing(trace), codec, Hooks(), False
        self.handlers: dict[str, Handler[..., ..., Any]] = {}
        self.schedules: dict[str, Schedule] = {}
        self.lifespans: list[Lifespan] = []
        self.chores: dict[str, Chore] = {}
        self.at_start: list[Statement[Any]] = []  # what a worker runs before its first claim
        self._limited: set[str] = set()  # kinds with limits of their own
        self.around_attempt, self.around_enqueue = self.hooks.around_attempt, self.hooks.around_enqueue
        self.on_error, self.provides, self.carry = self.hooks.on_error, self.hooks.provides, self.hooks.carry
        if on_citus(citus):
            self.use_citus()

    def use_schema(self, schema: str) -> None:
        """Use this schema: with a worker of another schema, its handlers must enqueue there too."""
        self.schema = check_schema_name(schema)
        for handler in self.handlers.values():
            handler.schema, handler.citus = schema, self.citus

    def use_citus(self) -> None:
        """Send through the door of a Citus cluster from now on; workers keep its memory of keys small."""
        self.chores.setdefault("door:forget_keys", check_chore("door:forget_keys", 3600.0, forget_keys()))
        self.citus = True
        self.use_schema(self.schema)

    def handler(
        self,
        kind: str,
        *,
        key: str | Callable[..., str] | None = None,
        queue: str | None = None,
        priority: int = 0,
        ordered: bool = False,
        hold: bool = False,
        max_attempts: int = MAX_ATTEMPTS,
        lease_seconds: float | None = None,
        timeout_seconds: float | None = None,
        backoff: Backoff | None = None,
        late_completion: Literal["reject", "accept"] = "reject",
        payload: type[Any] | None = None,
        pool: Pool | None = None,
        encrypt: bool | Sequence[str] | None = None,
        keep_payload: bool = True,
        result: bool = False,
        unique: Literal["pending"] | Unique | None = None,
        limits: Limits | None = None,
        **unknown: Never,
    ) -> Decorator:
        """Make a function the handler of a kind: async functions run on the loop, others in threads or processes.

        `encrypt` names fields, or True for all (a codec makes that the default); `result` keeps what it returns.
        `limits` are those of its queue, which is its own: by default it has the name of the kind."""
        self._check_new(kind, unknown, ordered and key is None)

        def decorate(function: Callable[..., Any]) -> Handler[..., ..., Any]:
            where = default_pool(function) if pool is None else pool
            handling = Handling(where, lease_seconds, timeout_seconds, backoff, late_completion, keep_payload, result)
            where_to = queue if queue is not None else kind if limits is not None else "default"
            self._limit(kind, where_to, limits)
            options = Options(where_to, key, priority, max_attempts, ordered, hold, unique=unique)
            return self._made(function, kind, options, handling, payload, encrypt)

        return cast("Decorator", decorate)

    def _made(
        self,
        function: Callable[..., Any],
        kind: str,
        options: Options,
        handling: Handling,
        payload: type[Any] | None,
        encrypt: bool | Sequence[str] | None,
    ) -> Handler[..., ..., Any]:
        self.handlers[kind] = Handler(
            check_pool(kind, function, handling.pool),
            kind,
            schema=self.schema,
            options=options,
            handling=handling,
            payload=payload,
            bus=self.bus,
            tracing=self.tracing,
            encryption=Encryption(self.codec, encrypt),
            hooks=self.hooks,
        )
        self.handlers[kind].citus = self.citus
        return self.handlers[kind]

    def _limit(self, kind: str, queue: str, limits: Limits | None) -> None:
        taken = {other: (made.options.queue, other in self._limited) for other, made in self.handlers.items()}
        check_limits(kind, queue, limits, taken)
        if limits is not None:
            self._limited.add(kind)
            self.at_start.append(limits.of(queue))

    def _check_new(self, kind: Any, unknown: Mapping[str, Any], keyless: bool) -> None:
        _check_known(kind, unknown)
        if not isinstance(kind, str):
            raise BadSettings(f'kind={kind!r} must be text: write @inbox.handler("send_receipt")')
        if kind in self.handlers:
            raise BadSettings(f"kind {kind!r} has a handler already: {self.handlers[kind].function.__qualname__}")
        if keyless:
            raise BadSettings(f"handler {kind!r} is ordered without a key: order is kept per key, e.g. 'order:{{id}}'")

    @overload
    def schedule(
        self, name: str, cron: str | Cron, handler: Handler[..., P, Any], *payload: P.args, **fields: P.kwargs
    ) -> Schedule: ...
    @overload
    def schedule(self, name: str, cron: str, handler: AnyHandler, *, zone: str, **fields: Any) -> Schedule: ...
    @overload
    def schedule(self, name: str, cron: str, handler: AnyHandler, *, misfire: str, **fields: Any) -> Schedule: ...
    @overload
    def schedule(self, name: str, cron: str, handler: AnyHandler, *, tick_as: str, **fields: Any) -> Schedule: ...
    def schedule(self, name: str, cron: str | Cron, handler: AnyHandler, *payload: Any, **fields: Any) -> Schedule:
        """Call a handler by the clock: schedule("nightly", Cron("30 2 * * *", zone="Europe/Berlin"), report, day=1).

        A field that is TICK has the time of the tick, in UTC like "2026-10-25T00:30:00Z". Instead of a Cron, its text
        and `zone`, `misfire` and `tick_as` by name do the same; then a type checker does not look at the fields.
        """
        when, fields = cron_of(cron, fields)
        return self._scheduled(name, when, handler, payload, fields)

    def _scheduled(
        self, name: str, when: Cron, handler: AnyHandler, payload: tuple[Any, ...], fields: dict[str, Any]
    ) -> Schedule:
        if name in self.schedules:
            raise BadSettings(f"schedule {name!r} exists already: {self.schedules[name].cron}")
        if not isinstance(handler, Handler):
            raise BadSettings(f"schedule {name!r} calls {handler!r}: give it a handler, made with @inbox.handler(…)")
        tick = {when.tick_as: _SOME_TICK} if when.tick_as is not None and not payload else {}
        row = handler.row(*payload, **fields, **tick)
        if tick:
            row = handler.encryption.encrypted(replace(row, payload=fields))  # the tick is added in the database
        _check_can_tick(name, row)
        self.schedules[name] = Schedule(
            name,
            when.text,
            row.kind,
            row.payload,
            zone=when.zone,
            queue=row.queue,
            key=row.key,
            priority=row.priority,
            max_attempts=row.max_attempts,
            ordered=row.ordered,
            misfire=when.misfire,
            tick_as=when.tick_as,
        )
        return self.schedules[name]

    def batch(self, conn: Any, *, then: Then | Batch = None, name: str | None = None) -> Batch:
        """Rows with one end: `async with inbox.batch(conn, then=report) as batch: batch.add(resize, path=…)`.

        They are sent in the caller's transaction when the block ends. When the last has ended, `then` runs once.
        """
        return Batch(conn, self.schema, then, name)

    async def result(self, row_id: Enqueued | UUID, *, timeout_seconds: float, url: str | None = None) -> Ended[Any]:
        """How a row ended, as soon as it has: Ended(status, value, error). TimeoutError if it has not by then.

        The value is what a handler with result=True returned. The database is `url`, or as `tenure.connect()` finds it.
        """
        return await wait_for_end_async(url, self.schema, id_of(row_id), timeout_seconds, self.codec)

    def result_blocking(self, row_id: Enqueued | UUID, *, timeout_seconds: float, url: str | None = None) -> Ended[Any]:
        """The same for code without a loop."""
        return wait_for_end(url, self.schema, id_of(row_id), timeout_seconds, self.codec)

    def lifespan(self, function: Opening) -> Opening:
        """A process resource: an async function with one yield, `@inbox.lifespan`.

        Each worker runs it up to the yield before its first claim, and the rest after its drain. If it raises before
        the yield, the worker does not start.
        """
        self.lifespans.append(Lifespan(getattr(function, "__qualname__", "?"), check_lifespan(function)))
        return function

    def chore(self, name: str, seconds: float, statement: Statement[Any] | Callable[[], Statement[Any]]) -> Chore:
        """Have one worker of the fleet run a statement every so often; it must be safe to run twice at once."""
        if name in self.chores:
            raise BadSettings(f"chore {name!r} exists already, every {self.chores[name].seconds:g} s: use another name")
        self.chores[name] = check_chore(name, seconds, statement)
        return self.chores[name]

    def __getitem__(self, kind: str) -> Handler[..., ..., Any]:
        """The handler of a kind, or UnknownHandler."""
        if kind not in self.handlers:
            raise UnknownHandler(
                f"no handler for kind {kind!r}: this inbox has {', '.join(sorted(self.handlers)) or 'none'}"
            )
        return self.handlers[kind]

    @property
    def declarations(self) -> list[Declaration]:
        """How the rows of its handlers are sent, for producers that cannot import them."""
        return [handler.declaration for handler in self.handlers.values()]

    @property
    def queues(self) -> Mapping[str, float]:
        """The queues of its handlers, all with the same weight."""
        return dict.fromkeys(sorted({queue for handler in self.handlers.values() for queue in handler.queues}), 1.0)


def _check_known(kind: str, unknown: Mapping[str, Any]) -> None:
    """BadSettings that lists the options, if there is one that no handler has."""
    if unknown:
        every = inspect.signature(Inbox.handler).parameters.values()
        known = ", ".join(each.name for each in every if each.kind is each.KEYWORD_ONLY)
        raise BadSettings(f"handler {kind!r} has the unknown option {sorted(unknown)[0]!r}: choose from {known}")


def _check_can_tick(name: str, row: NewRow) -> None:
    if row.hold:
        raise BadSettings(
            f"schedule {name!r} calls {row.kind!r}, which has hold=True: a schedule cannot hold, remove it"
        )
    if row.again == "after_start":
        raise BadSettings(f"schedule {name!r} calls {row.kind!r}, which is unique: each tick is sent once, remove it")
    if _SOME_TICK in (row.key or ""):
        raise BadSettings(
            f"schedule {name!r} has its tick in key={row.key!r}: all its rows share one key, remove the tick"
        )
