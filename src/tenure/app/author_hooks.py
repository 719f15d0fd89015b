"""The hooks of an inbox: what its application does around rows and attempts, in every place that runs handlers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import msgspec

from ..errors import BadSettings, Cancelled, InvalidPayload, StaleLease
from ..model.rows import NewRow
from .around import Around, check_around, within, within_async
from .provider import Provider, check_provider

if TYPE_CHECKING:
    from .job import Job
    from .signature import Signature

HEADER = "tenure-context-"
ErrorHook = Callable[[BaseException, "Job"], object]
F = TypeVar("F", bound=Callable[..., Any])
E = TypeVar("E", bound=Callable[[BaseException, Any], object])
_NOT_OURS = (StaleLease, Cancelled, asyncio.CancelledError)  # the row is no longer ours, or somebody asked for the end
_MISSING = object()


class Hooked(Protocol):
    """What the hooks ask of a handler."""

    function: Callable[..., Any]
    signature: Signature

    @property
    def awaits(self) -> bool:
        """True if its function is async."""


class Hooks:
    """Lists of functions, in the order in which they were added: the first is the outermost."""

    def __init__(self) -> None:
        self.enqueues: list[Around] = []
        self.attempts: list[Around] = []
        self.errors: list[ErrorHook] = []
        self.providers: dict[Any, Provider] = {}
        self.carried: dict[str, ContextVar[Any]] = {}

    # -- how an application adds them: inbox.around_attempt and so on

    @overload
    def around_attempt(self, function: F) -> F: ...
    @overload
    def around_attempt(self, *, kinds: Sequence[str]) -> Callable[[F], F]: ...
    def around_attempt(self, function: Any = None, *, kinds: Sequence[str] | None = None) -> Any:
        """`@inbox.around_attempt` on a function of the job with one yield, which gives what the handler returned.

        An exception comes out of the yield, too. What the function returns replaces the outcome. If it returns an
        outcome before the yield, the handler is not called. An async one is around async handlers only.
        """
        return _added(self.attempts, function, kinds, "around_attempt")

    @overload
    def around_enqueue(self, function: F) -> F: ...
    @overload
    def around_enqueue(self, *, kinds: Sequence[str]) -> Callable[[F], F]: ...
    def around_enqueue(self, function: Any = None, *, kinds: Sequence[str] | None = None) -> Any:
        """`@inbox.around_enqueue` on a function of the row with one yield: of another row, or of nothing."""
        return _added(self.enqueues, function, kinds, "around_enqueue")

    def on_error(self, function: E) -> E:
        """Call this with the exception that leaves a handler, and its job; where the handler runs, before the retry."""
        self.errors.append(function)
        return function

    def provides(self, function: F) -> F:
        """What it returns, or yields once, is given to handlers with a parameter of its type, anew for each attempt."""
        made, provider = check_provider(function, self.providers)
        self.providers[made] = provider
        return function

    def carry(self, **variables: ContextVar[Any]) -> None:
        """Carry context variables from enqueue to the attempt, in the row's headers: carry(tenant=tenant)."""
        for name, variable in variables.items():
            if not isinstance(variable, ContextVar):
                raise BadSettings(f"carry({name}={variable!r}) must be a context variable: ContextVar({name!r})")
        self.carried.update(variables)

    # -- what there is

    @property
    def sending(self) -> bool:
        """True if something is to be done when a row is sent."""
        return bool(self.enqueues or self.carried)

    @property
    def attempting(self) -> bool:
        """True if something is to be done around an attempt."""
        return bool(self.attempts or self.errors or self.carried)

    def check(self, handlers: Mapping[str, Hooked]) -> None:
        """BadSettings if a handler could not be run: a plain one cannot await, or nobody makes what it is given."""
        for kind, handler in handlers.items():
            plain = not handler.awaits
            for around in self.attempts if plain else ():
                if around.awaits and around.covers(kind):
                    raise BadSettings(
                        f"around_attempt {around.name} is async and handler {kind!r} is not: make it a plain function "
                        "with one yield, which works around both, or name its kinds: around_attempt(kinds=[…])"
                    )
            for name, wanted in handler.signature.injected.items():
                provider = self.providers.get(wanted)
                if provider is None:
                    raise BadSettings(
                        f"handler {kind!r} is given {name!r}, but nothing makes a {wanted!r}: "
                        "write @inbox.provides on a function that returns one"
                    )
                if provider.awaits and plain:
                    raise BadSettings(
                        f"handler {kind!r} is a plain function and {name!r} is made by an async one: make it plain, too"
                    )

    # -- sending

    def with_context(self, row: NewRow) -> NewRow:
        """The row with the context variables that are carried, as headers."""
        found = {HEADER + name: var.get(_MISSING) for name, var in self.carried.items()}
        try:
            texts = {
                name: msgspec.json.encode(value).decode() for name, value in found.items() if value is not _MISSING
            }
        except (TypeError, ValueError) as error:
            raise InvalidPayload(
                f"a context variable that is carried is not JSON ({error}): carry text or numbers"
            ) from None
        return msgspec.structs.replace(row, headers={**texts, **(row.headers or {})}) if texts else row

    def around_sending(self, kind: str, *, awaits: bool) -> list[Around]:
        """What is around sending this kind; BadSettings if a plain connection would have to await."""
        found = [around for around in self.enqueues if around.covers(kind)]
        for around in found:
            if around.awaits and not awaits:
                raise BadSettings(
                    f"around_enqueue {around.name} is async and this connection is not: make it a plain function with "
                    "one yield, which works with both"
                )
        return found

    # -- attempts

    def run_plain(self, handler: Hooked, job: Job, args: Any, fields: Any) -> Any:
        """Call a plain handler within all of it."""
        with self._telling(job), self._context(job), ExitStack() as stack:
            for name, wanted in handler.signature.injected.items():
                fields[name] = self._provider(wanted).enter(stack, job)
            return within(self._around(job), job, lambda _: handler.function(*args, **fields))

    async def run_async(self, handler: Hooked, job: Job, args: Any, fields: Any) -> Any:
        """Call an async handler within all of it."""
        with self._telling(job), self._context(job):
            async with AsyncExitStack() as stack:
                for name, wanted in handler.signature.injected.items():
                    fields[name] = await self._provider(wanted).enter_async(stack, job)
                return await within_async(self._around(job), job, lambda _: handler.function(*args, **fields))

    def _around(self, job: Job) -> list[Around]:
        return [around for around in self.attempts if around.covers(job.kind)]

    def _provider(self, wanted: Any) -> Provider:
        if wanted not in self.providers:
            raise BadSettings(f"nothing makes a {wanted!r}: write @inbox.provides on a function that returns one")
        return self.providers[wanted]

    @contextmanager
    def _context(self, job: Job) -> Iterator[None]:
        """The context variables that came with the row."""
        with ExitStack() as stack:
            sent = job.sent_headers if self.carried else {}
            for name, var in self.carried.items():
                if (text := sent.get(HEADER + name)) is not None:
                    stack.callback(partial(var.reset, var.set(msgspec.json.decode(text))))
            yield

    @contextmanager
    def _telling(self, job: Job) -> Iterator[None]:
        """Tell the error hooks of an exception. One that raises is logged, and changes nothing."""
        try:
            yield
        except _NOT_OURS:
            raise
        except BaseException as error:
            shown = error if job.veil is None else job.veil.over_error(error)
            for hook in self.errors:
                try:
                    hook(shown, job)
                except Exception:
                    logging.getLogger("tenure").exception("the error hook %r raised", hook)
            raise


def _added(arounds: list[Around], function: Any, kinds: Sequence[str] | None, where: str) -> Any:
    """The function, which is one of these now; without one, a decorator for it."""
    if function is None:
        return lambda given: _added(arounds, given, kinds, where)
    arounds.append(check_around(function, kinds, where))
    return function
