"""A Flow: what the function of a workflow sees. Its calls are awaited in an async workflow, called in a plain one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ...app.signature import Signature
from ...errors import BadSettings
from ...model.payload import encode
from ...verbs.steps import Step, check_signal
from .branches import as_tasks, in_threads, nothing_to_close, roots_of
from .children import NUMBERS, called, codec_of, kind_of, mapped_in_parts, rows_of
from .core import Core
from .divisions import divided, other_division
from .effects import Call, Doing, Nap
from .lines import BRANCH, Branch
from .returning import Returning
from .stable import Stable
from .step_context import RUNNING, outside_of_steps
from .step_values import hash_of, nothing, signalled
from .tries import DEFAULT, Tries, check_step
from .trouble import Again, DefinitionDiffers, FlowLimit, UseParallel

WAIT_SECONDS_MAX = 400 * 86_400.0
BRANCHES_MAX = 100
DEPTH_MAX = 8


class Flow(Stable):
    """One attempt at one instance. What its steps returned is known from their records."""

    def __init__(self, driver: Any, core: Core, main: Branch, takes: Signature) -> None:
        super().__init__(driver, core, main)
        self._takes = takes  # as input

    def __repr__(self) -> str:
        of = self._core.instance
        return f"<Flow {of.workflow} {of.id} version {of.version}, run {of.run}>"

    @property
    def id(self) -> UUID:
        """The instance: the id of its row."""
        return self._core.instance.id

    @property
    def run(self) -> int:
        """Which run this is, from 1: the next begins with anew."""
        return self._core.instance.run

    @property
    def version(self) -> int:
        """The version of the definition that it began with."""
        return self._core.instance.version

    @property
    def key(self) -> str:
        """The key of the step that runs, else of the instance: stable, so that receivers detect doubles."""
        running = RUNNING.get()
        return running.key if running is not None else str(self.id)

    # -- steps

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        retry: Tries = DEFAULT,
        timeout_seconds: float | None = None,
        undo: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run a function and record its result: at least once, with `flow.key` the same each time.

        `undo(result, *args)` is called if the flow fails later or is cancelled, also when nobody knows whether the step
        took effect: then its result is None.
        """
        if timeout_seconds is not None and self._driver.blocking:
            raise BadSettings(f"step {name!r} has timeout_seconds, and nothing ends a thread: make the workflow async")
        return self._call(name, function, args, kwargs, retry, timeout_seconds, undo, fenced=False)

    def fenced(
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        retry: Tries = DEFAULT,
        undo: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run `function(tx, *args)` in a transaction that ends with the record: exactly once."""
        return self._call(name, function, args, kwargs, retry, None, undo, fenced=True)

    def _call(
        self, name: str, function: Any, args: Any, kwargs: Any, tries: Tries, timeout: Any, undo: Any, *, fenced: bool
    ) -> Any:
        check_step(name, tries)
        branch, n = self._reserve(name)
        call = Call(
            branch.path, n, name, function, args, kwargs, tries, timeout, None, fenced, undo, hash_of(args, kwargs)
        )
        return self._beside(self._core.called(call), (branch.path, n))

    def start(self, workflow: Any, **fields: Any) -> Any:
        """Start another workflow, exactly once, and do not wait for it: its id."""

        def begin(tx: Any, **given: Any) -> Any:
            return workflow.start(tx, **given)

        async def begin_async(tx: Any, **given: Any) -> str:
            return str((await begin(tx, **given)).id)

        chosen = (lambda tx, **given: str(begin(tx, **given).id)) if self._driver.blocking else begin_async
        return self.fenced(f"start:{workflow.name}", chosen, **fields)

    # -- children

    def map(self, what: Any, inputs: Iterable[Any], *, window: int | None = None, stop_on_failure: bool = False) -> Any:
        """Send a row of a handler or workflow for each input, and wait for their ends: a list of Ended, in order.

        The flow is parked meanwhile. `window` starts only so many at a time; stop_on_failure cancels the rest when one
        has failed, those that were not started too. Once begun, it has as many inputs and the same window for good.
        """
        rows, name = rows_of(what, list(inputs)), f"map:{kind_of(what)}"
        division = divided(len(rows), window, stop_on_failure)
        numbers = NUMBERS * division.parts
        place = self._reserve_some(name, numbers)
        if (differs := other_division(self._core, place, name, division)) is not None:
            raise self._driver.sleepers.stop(differs)  # before anything else: what follows the map has other numbers
        terms = {"blocking": self._driver.blocking, "stop": stop_on_failure, "codec": codec_of(what)}
        doing = mapped_in_parts(self._core, place, name, rows, division, self._driver.job.schema, **terms)
        return self._beside(doing, place, numbers)

    def call(self, handler: Any, **fields: Any) -> Any:
        """A job as a step, in its own queue and pool: its value, or StepFailed. The handler needs result=True."""
        name, rows, driver = f"call:{kind_of(handler)}", rows_of(handler, [fields]), self._driver
        place = self._reserve_some(name, NUMBERS)
        terms = {"blocking": driver.blocking, "codec": codec_of(handler)}
        doing = called(self._core, place, name, rows, driver.job.schema, **terms)
        return self._beside(doing, place, NUMBERS)

    # -- waiting

    def sleep(self, seconds: float = 0.0, *, days: float = 0.0, hours: float = 0.0, minutes: float = 0.0) -> Any:
        """Sleep, also for days: the row is given back meanwhile.

        Below a second it waits in place: that is not recorded, and is slept again in every attempt.
        """
        total = seconds + timedelta(days=days, hours=hours, minutes=minutes).total_seconds()
        if not 0 <= total <= WAIT_SECONDS_MAX:
            raise FlowLimit(f"sleep of {total:g} s must be between 0 and 400 days: sleep again, or begin anew")
        outside_of_steps("flow.sleep")
        if total < 1.0:
            return self._driver.go(_nap(total))
        return self._wait("sleep", total, None, nothing)

    def sleep_until(self, at: datetime) -> Any:
        """Sleep until this time, at most 400 days from now()."""
        if at.tzinfo is None:
            raise BadSettings(f"sleep_until({at}): a time without a zone; give it tzinfo")
        if at.timestamp() - self.now().timestamp() > WAIT_SECONDS_MAX:
            raise FlowLimit(f"sleep_until({at}) must be within 400 days: sleep until then again, or begin anew")
        return self._wait("sleep", None, at.timestamp(), nothing)

    def wait_for(self, signal: str, *, timeout_seconds: float = WAIT_SECONDS_MAX) -> Any:
        """The next signal of this name: its payload, or TIMED_OUT. One that came before is waiting already."""
        if not 0 <= timeout_seconds <= WAIT_SECONDS_MAX:
            raise FlowLimit(f"timeout_seconds={timeout_seconds:g} must be between 0 and 400 days: wait again, or anew")
        return self._wait(f"wait:{check_signal(signal)}", timeout_seconds, None, signalled)

    def _wait(self, name: str, seconds: float | None, at: float | None, read: Callable[[Step], Any]) -> Any:
        branch, n = self._reserve(name)
        return self._beside(self._core.waited(branch.path, n, name, seconds, at, read), (branch.path, n))

    # -- branches

    def parallel(self, *branches: Any) -> Any:
        """Run branches at once; their values in order. If some fail, the first of them is raised when all have ended.

        In an async workflow a(flow), in a plain one partial(a, flow): each has a path of its own.
        """
        return self._branch("parallel", branches)

    def first(self, *branches: Any) -> Any:
        """What the branch that ends first returns or raises; the others are closed, and their children cancelled."""
        return self._branch("first", branches)

    def _branch(self, how: str, branches: tuple[Any, ...]) -> Any:
        if not 1 <= len(branches) <= BRANCHES_MAX:
            raise FlowLimit(f"{how} takes 1 to {BRANCHES_MAX} branches, not {len(branches)}: use flow.map for more")
        here, n = self._reserve(how)
        if here.depth >= DEPTH_MAX:
            raise FlowLimit(f"branches may be {DEPTH_MAX} deep: start a workflow of its own")
        core = self._core
        try:
            known = core.ask_branches(here.path, n, how, len(branches))
        except DefinitionDiffers as differs:
            for each in branches:
                getattr(each, "close", nothing_to_close)()
            raise self._driver.sleepers.stop(differs) from None
        prefix = f"{here.path}/" if here.path else ""
        paths = [Branch(f"{prefix}{n}.{i}", None, here.depth + 1) for i in range(len(branches))]
        for each in paths:
            core.moments.begin(each.path, here.path)
        winner = int(known.result or 0) if how == "first" and known is not None else None
        given = tuple(
            each if roots_of(core, each) else Returning(self._driver, core, path, each)
            for each, path in zip(branches, paths, strict=True)
        )
        if self._driver.blocking:
            return in_threads(self._driver, here, how, given, paths)
        roots = [root for each in branches for root in roots_of(core, each)] + [(each.path, None) for each in paths]
        call = as_tasks(self._driver, core, here, n, how, winner, given, paths)
        core.unbegun[here.path, n] = call, roots
        return call

    # -- other definitions

    def patched(self, name: str, *, retired: bool = False) -> bool:
        """True for instances that reach this place with the new code, False for those that were past it with the old.

        retired=True accepts the markers that are there and makes none: when no instance without one is left.
        """
        outside_of_steps("flow.patched")
        core, branch = self._core, BRANCH.get(self._main)
        known = core.records.get((branch.path, branch.n))
        if known is None and retired:
            return True
        if known is not None and known.name != f"patch:{name}":
            return retired
        here, n = self._reserve(name)
        core.ask(here.path, n, f"patch:{name}")
        if known is None:
            core.riders.append(Step(here.path, n, f"patch:{name}", "patched"))
        return True

    def anew(self, **fields: Any) -> Any:
        """Begin again from the top with this input, without records and undos: the same instance, its next run.

        InvalidPayload if the function cannot be called with it.
        """
        outside_of_steps("flow.anew")
        if BRANCH.get(self._main).walk is not None:  # it had lost: the flow goes on with the branch that won
            raise asyncio.CancelledError
        raise self._driver.sleepers.stop(Again(encode(self._takes.payload((), fields))))

    def _beside(self, doing: Doing, place: tuple[str, int], numbers: int = 1) -> Any:
        """A call with these numbers, which may be given to parallel or first as it is."""
        call = self._driver.go(doing)
        if not self._driver.blocking:
            path, n = place
            self._core.unbegun[place] = call, (place,) if numbers == 1 else [(path, n + i) for i in range(numbers)]
        return call

    def _reserve_some(self, name: str, numbers: int) -> tuple[str, int]:
        branch, n = self._reserve(name)
        branch.n += numbers - 1
        self._core.failures.next[branch.path] = branch.n
        return branch.path, n

    def _reserve(self, name: str) -> tuple[Branch, int]:
        """The next number on this path, when the call is made and not when it runs: gather of calls stays stable."""
        outside_of_steps(name)
        branch = BRANCH.get(self._main)
        if branch.owner is not None and branch.owner != self._driver.me():
            raise UseParallel(name)
        n, branch.n = branch.n, branch.n + 1
        self._core.reach(branch.path, n)
        self._core.failures.next[branch.path] = branch.n
        return branch, n


def _nap(seconds: float) -> Doing:
    yield Nap(seconds)
