"""Flows: the workflows of an inbox, by name and version; how an instance is started, reached and driven."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from ...app.function_kind import check_runs, is_async
from ...app.handler import Handler
from ...app.inbox import Inbox
from ...app.job import Job
from ...app.lent import Connections
from ...errors import BadSettings, InvalidPayload
from ...model.outcome import DeadLetter, Snooze
from ...postgres.runner import run
from ...verbs.flows import FlowState, flow_state
from ...verbs.steps import cancel_flow, signal
from .blocking import Blocking
from .core import Core
from .definition import Definition, check_options
from .driving import Awaiting
from .effects import Instance, Main
from .flow import Flow
from .life import life
from .lines import BRANCH, Branch
from .recorder import Recorder
from .terms import check_deadline, check_version, headers_of
from .trouble import NO_FLOW, InputDiffers

CRASHES_MAX = 20
CLAIM_SECONDS = 3.0  # a claim lasts no longer than this, with the margin of a lease
VERSION_SECONDS = 30.0  # how long a row waits whose version this worker does not have


_FLOWS: WeakKeyDictionary[Inbox, list[Flows]] = WeakKeyDictionary()


def workflows_of(inbox: Inbox) -> dict[str, Workflow]:
    """All workflows of an inbox, by name."""
    return {name: made for flows in _FLOWS.get(inbox, []) for name, made in flows.workflows.items()}


class Workflow:
    """A workflow with all its versions: `start` begins an instance, `of` reaches one by its name."""

    def __init__(self, flows: Flows, name: str) -> None:
        self.flows, self.name = flows, name
        self.versions: dict[int, Definition] = {}
        self.handler: Handler[..., ..., Any] | None = None

    def __repr__(self) -> str:
        return f"<Workflow {self.name!r}, versions {sorted(self.versions)}>"

    @property
    def newest(self) -> Definition:
        """The version that new instances begin with."""
        return self.versions[max(self.versions)]

    @property
    def named(self) -> str | None:
        """How instances are named: by the newest version that says so."""
        given = (self.versions[version].named for version in sorted(self.versions, reverse=True))
        return next((named for named in given if named is not None), None)

    @property
    def deadline_seconds(self) -> float | None:
        """How long a new instance may take."""
        return self.newest.deadline_seconds

    def start(self, conn: Any, **fields: Any) -> Any:
        """Begin an instance in the caller's transaction; awaitable if the connection is.

        A second start of its name is the same instance; with another input it is refused, as IdempotencyConflict.
        """
        assert self.handler is not None
        self.newest.signature.payload((), fields)
        options: dict[str, Any] = {"headers": self._headers()}
        if self.named is not None:
            options["idempotency_key"] = self.key_of(_formatted(self.name, self.named, fields))
        return self.handler.using(**options).enqueue(conn, **fields)

    def child(self) -> Any:
        """Makes rows of new instances, for flow.map and flow.call: without a name, its parent knows it."""
        assert self.handler is not None
        return self.handler.using(headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return headers_of(self.name, self.newest.version, self.deadline_seconds)

    def key_of(self, name: str) -> str:
        """The idempotency key of the instance of this name."""
        return f"flow:{self.name}:{name}"

    def of(self, name: str | UUID) -> InstanceHandle:
        """An instance, by its name or its id."""
        return InstanceHandle(self, name)


class InstanceHandle:
    """One instance, from outside; each call is awaitable if the connection is."""

    def __init__(self, workflow: Workflow, name: str | UUID) -> None:
        self._schema = workflow.flows.inbox
        self._id = name if isinstance(name, UUID) else None
        self._named = None if isinstance(name, UUID) else workflow.key_of(name)

    def signal(self, conn: Any, name: str, payload: Any = None, *, once: str | None = None) -> Any:
        """Send a signal, in the caller's transaction: delivered, queued, duplicate, ended or unknown."""
        return run(conn, signal(self._id, name, payload, named=self._named, once=once), self._schema.schema)

    def cancel(self, conn: Any, reason: str = "on request") -> Any:
        """Ask it to undo what it has done, and to end as cancelled: its id, and asked, ended or unknown.

        A dead letter comes back to undo what it did, if the login may redrive; to a producer or worker it has ended.
        """
        return run(conn, cancel_flow(self._id, named=self._named, reason=reason), self._schema.schema)

    def state(self, conn: Any) -> Any:
        """Where it stands, what it waits for, and what it shows: a FlowState, or None."""
        found: FlowState | None = run(conn, flow_state(self._id, named=self._named), self._schema.schema)
        return found


class Flows:
    """The workflows of an inbox."""

    def __init__(self, inbox: Inbox, *, core: type[Core] = Core) -> None:
        self.inbox, self.core = inbox, core
        self.workflows: dict[str, Workflow] = {}
        _FLOWS.setdefault(inbox, []).append(self)
        self._recorders: WeakKeyDictionary[Connections, Recorder] = WeakKeyDictionary()

    def workflow(
        self,
        workflow: str,
        *,
        name: str | None = None,
        version: int = 1,
        deadline_seconds: float | None = None,
        cleanup_seconds: float = 600.0,
        strict: bool = False,
        **options: Any,
    ) -> Callable[[Callable[..., Any]], Workflow]:
        """Make a function a workflow, or a version of one: `@flows.workflow("checkout", name="order:{order_id}")`.

        `name` says which instance is which (see `start`). Options are those of a handler.
        """
        check_version(workflow, version)
        check_deadline(workflow, deadline_seconds)

        def decorate(function: Callable[..., Any]) -> Workflow:
            check_runs(f"workflow {workflow!r}", function)
            made = self.workflows.get(workflow)
            self._check(workflow, options, is_new=made is None)
            made = made or Workflow(self, workflow)
            if version in made.versions:
                raise BadSettings(f"workflow {workflow!r} has a version {version} already: give this one another")
            if made.versions and is_async(made.newest.function) != is_async(function):
                raise BadSettings(f"workflow {workflow!r} has async and plain versions: make them all one or the other")
            one = Definition(workflow, version, function, strict, cleanup_seconds)
            one.name_instances(workflow, name)
            one.deadline_seconds, one.options = deadline_seconds, options
            self._register(made, {**made.versions, version: one})
            self.workflows[workflow] = made
            return made

        return decorate

    def _register(self, made: Workflow, versions: dict[int, Definition]) -> None:
        """Have the handler that the newest version asks for; rows of older ones may wait in other queues."""
        before, newest = made.handler, versions[max(versions)]
        promised = any(each.promises for each in versions.values())
        if before is not None:
            del self.inbox.handlers[made.name]
        try:
            made.handler = self._handler(made, newest.function, {"result": promised, **newest.options})
            made.versions = versions
        except BaseException:
            if before is not None:
                self.inbox.handlers[made.name] = before
            raise
        made.handler.queues |= {each.queue(made.name) for each in versions.values()}

    def _check(self, workflow: str, options: dict[str, Any], *, is_new: bool) -> None:
        if is_new and workflow in workflows_of(self.inbox):
            raise BadSettings(f"workflow {workflow!r} is in another Flows of this inbox: give this one another name")
        check_options(workflow, options, encrypted=self.inbox.codec is not None)

    def _handler(self, made: Workflow, function: Callable[..., Any], options: dict[str, Any]) -> Handler[..., ..., Any]:
        if is_async(function):

            async def drive(job: Job, **fields: Any) -> Any:  # noqa: ARG001
                return await _driven(made, job, self.recorder(job))

            return self.inbox.handler(made.name, max_attempts=CRASHES_MAX, **options)(drive)

        def drive_plain(job: Job, **fields: Any) -> Any:  # noqa: ARG001
            return _driven(made, job, self.recorder(job), blocking=True)

        return self.inbox.handler(made.name, max_attempts=CRASHES_MAX, **options)(drive_plain)

    def recorder(self, job: Job) -> Recorder:
        """The recorder of this job's worker."""
        found = self._recorders.get(job.lender)
        if found is None:
            found = self._recorders[job.lender] = Recorder(job.lender, job.schema)
        return found


def _driven(made: Workflow, job: Job, recorder: Recorder, *, blocking: bool = False) -> Any:
    """Drive one attempt: its outcome, or an awaitable of it."""
    headers = job.sent_headers
    if "tenure-flow" not in headers:
        # Nobody could signal or cancel it, no deadline holds, a delete takes it mid-way. Only start() knows all of it.
        refused = DeadLetter(NO_FLOW.format(made.name))
        return refused if blocking else _ready(refused)
    version = int(headers.get("tenure-version", "1"))
    definition = made.versions.get(version)
    if definition is None:
        known = ", ".join(map(str, sorted(made.versions)))
        away = Snooze(VERSION_SECONDS, f"no worker for version {version} of {made.name!r}: this one has {known}")
        return away if blocking else _ready(away)
    began = began_at(job.id)
    core = made.flows.core(_instance(made, definition, job, headers, began), began, headers.get("tenure-cancel", ""))
    bus = made.flows.inbox.bus
    driver = Blocking(job, core, recorder, bus) if blocking else Awaiting(job, core, recorder, bus)
    main = Branch("", driver.me())
    BRANCH.set(main)
    driver.sleepers.enter(main)
    begun = _begun(definition, Flow(driver, core, main, definition.signature), job)
    return driver.live(life(core, begun, recalled=job.token > 1, token=job.token, worker=job.claimed.worker))


def _begun(definition: Definition, flow: Flow, job: Job) -> Main:
    """The call of the function. An input that it does not take is changed code: the row waits for the right one."""
    try:
        args, fields = definition.signature.arguments(None, job.claimed.payload)
    except InvalidPayload as error:
        return Main(_refused, (InputDiffers(job.id, job.kind, definition.version, str(error)),), {})
    return Main(definition.function, (flow, *args), fields)


def _refused(why: InputDiffers) -> None:
    raise why


def began_at(id: UUID) -> float:
    """When an instance began, in seconds since 1970: ids are time-ordered."""
    return (id.int >> 80) / 1000.0


async def _ready(value: Any) -> Any:
    return value


def _instance(made: Workflow, definition: Definition, job: Job, headers: dict[str, str], began: float) -> Instance:
    number, after = int(headers.get("tenure-run", "1")), headers.get("tenure-deadline")
    deadline = None if after is None else round(began + float(after), 6)  # as the database keeps times
    redriven = float(headers.get("tenure-redriven", "0"))
    terms = (definition.strict, definition.cleanup_seconds, redriven, _past(job))
    return Instance(job.id, made.name, definition.version, number, deadline, *terms)


def _past(job: Job) -> float:
    """A time that the database's clock has passed: the row was due then, and so much of its lease is gone at least."""
    left = job.deadline - time.monotonic()  # it counts from when the claim was sent, and ends a margin too early
    return max(job.claimed.available_seconds, job.claimed.ends_seconds - left - CLAIM_SECONDS)


def _formatted(workflow: str, named: str, fields: dict[str, Any]) -> str:
    try:
        return named.format_map(fields)
    except (KeyError, IndexError, AttributeError, TypeError, ValueError) as error:
        raise InvalidPayload(
            f"name={named!r} of workflow {workflow!r} cannot be made of its input ({error!r})"
        ) from None
