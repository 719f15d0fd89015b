"""A Projection: a function that makes tables of events, and how it is run."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

from ...app.function_kind import awaited, check_runs, is_async, unrun
from ...errors import BadSettings
from ...model.journal import Event, like_types
from ...verbs.projections import plan_projection, queue_of
from ...verbs.statement import Statement

OnError = Literal["stop", "skip"]
SHARDS_MAX, BATCH_MAX = 1024, 5_000
BATCH = 500  # events in one transaction
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")


class EndedTransaction(BadSettings):
    """The function of a projection has ended the transaction of its batch; `applied` calls before it had not."""

    def __init__(self, name: str, applied: int = 0) -> None:
        self.applied = applied
        super().__init__(
            f"the function of projection {name!r} ended its transaction: leave COMMIT and ROLLBACK to Tenure, then "
            f"`tenure projections resume {name}`"
        )


class Projection:
    """What `@journal.projection` makes of a function: it stays callable."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        *,
        of: Sequence[str] | None = None,
        tables: Sequence[str] = (),
        shards: int = 1,
        batch: int = BATCH,
        on_error: OnError = "stop",
        queue: str | None = None,
    ) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BadSettings(f"projection {name!r} must have a name of small letters, digits and _, at most 48")
        for what, value, most in (("shards", shards, SHARDS_MAX), ("batch", batch, BATCH_MAX)):
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
                raise BadSettings(f"projection {name!r} has {what}={value!r}: it must be between 1 and {most}")
        if on_error not in get_args(OnError):
            raise BadSettings(
                f"projection {name!r} has on_error={on_error!r}: choose from {', '.join(get_args(OnError))}"
            )
        if isinstance(tables, str):
            raise BadSettings(f"projection {name!r} has tables={tables!r}: give a list, [{tables!r}]")
        if twice := [each for each, n in Counter(tables).items() if n > 1]:
            raise BadSettings(f"projection {name!r} has tables={list(tables)!r}: name {twice[0]!r} once")
        check_runs(f"projection {name!r}", function)
        self.function, self.name, self.like = function, name, like_types(of)
        self.tables, self.shards, self.batch, self.on_error = list(tables), shards, batch, on_error
        self.queue = queue or queue_of(name)
        self.whole = _takes_events(function, name)
        self.awaited = is_async(function)
        if self.awaited:
            self.function = awaited(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as in a test."""
        return self.function(*args, **kwargs)

    def check(self, value: Any) -> None:
        """BadSettings if its function has not run: it returned a coroutine or a generator."""
        if left := unrun(value):
            raise BadSettings(
                f"the function of projection {self.name!r} returned {left}: make it `async def` and await"
            )

    def ended(self) -> EndedTransaction:
        """Its function has ended a transaction, in which of its calls nobody knows."""
        return EndedTransaction(self.name)

    def planned(self) -> Statement[int]:
        """Make sure that it has its checkpoints, and a row for each shard."""
        return plan_projection(
            self.name,
            shards=self.shards,
            like=self.like,
            tables=self.tables,
            on_error=self.on_error,
            queue=self.queue,
        )

    def calls(self, events: list[Event]) -> Iterable[Any]:
        """With what the function is called for these events: each, or all at once."""
        return events if not self.whole else [events] if events else []


def _takes_events(function: Callable[..., Any], name: str) -> bool:
    """True if it takes the events of a batch as a list, by the name of its second parameter."""
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 2:
        raise BadSettings(f"projection {name!r} must take (tx, event), or (tx, events) for a list: not {parameters}")
    return parameters[1] == "events"
