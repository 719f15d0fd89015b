"""A rebuild: one shard of all streams that fills new tables beside the old ones, catches up, and swaps them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from psycopg.errors import DeadlockDetected, LockNotAvailable

from ...errors import BadSettings, StaleLease
from ...events import ProjectionSwapped
from ...model.journal import Event
from ...model.outcome import Completed, Outcome
from ...postgres.sqlstates import trouble_of
from ...verbs.journal import read_between
from ...verbs.projections import ShardState, enter_batch, was_skipped
from ...verbs.rebuild import enter_shadow, lock_checkpoints, open_shadow, swap_shadow, tables_written
from ...verbs.statement import Statement, at_its_end
from .projection import EndedTransaction
from .shard import BATCH_FAR, Apply, Ask, Body, Call, Rest, Shard, Step, Steps

SHADOW = -1  # the number of its checkpoint
NEAR = 500  # positions that the swap applies itself: with small batches it would never catch up with quick writers


class Rebuild(Shard):
    """The same steps as of a shard, in the schema of the new tables, and then the swap.

    An event that the swap cannot apply is left to a batch, which finds it and stops there, or skips it.
    """

    _unapplied_to = 0  # up to where batches come first: the swap could not apply what was left
    _swap_to = 0  # up to where the last swap applied: where the shards were, maybe ahead of what our tail has seen

    def steps(self) -> Steps:
        """Until the new tables are in the place of the old ones."""
        yield Ask(open_shadow(self.projection.name))
        return (yield from super().steps())

    def all_streams(self, state: ShardState) -> ShardState:
        """It reads every stream, however many shards there are."""
        return state._replace(shards=1, again=False)

    def body(self, events: list[Event], *then: Statement[Any]) -> Body:
        """As of a shard, but unqualified names mean the new tables, and no other table may change."""
        begun = yield enter_batch(self.projection.name, self.number, self.job.claimed)
        yield from self._in_shadow(events, begun.mark)
        for statement in then:  # noqa: UP028, a tuple takes no answers
            yield statement

    def _in_shadow(self, events: list[Event], mark: str) -> Body:
        if not events:
            return
        name = self.projection.name
        yield enter_shadow(name)
        before: dict[str, int] = yield tables_written(name)
        yield Call(events, mark)
        after: dict[str, int] = yield tables_written(name)
        changed = sorted(each for each, n in after.items() if n != before.get(each, 0))
        if changed:
            raise BadSettings(
                f"projection {name!r} writes to {changed[0]} while it is rebuilt: name that table in tables=[…], and "
                "write to it without its schema"
            )

    def skips(self, state: ShardState, event: Event) -> Generator[Step, Any, bool]:
        """As its projection does; and what an operator has skipped before is not asked for again."""
        return state.on_error == "skip" or (yield Ask(was_skipped(self.projection.name, event.position)))

    def between(self, _state: ShardState, _horizon: int) -> Generator[Step, Any, Outcome | None]:
        """Near the head, swap; where somebody keeps a table locked, or waits for us in a circle, come again."""
        if _horizon - self.written > max(NEAR, self.projection.batch) or self.read_to < self._unapplied_to:
            return None
        try:
            how, upto = yield Apply(self._swap(_state))
        except (LockNotAvailable, DeadlockDetected):
            yield Rest(0.5)
            return None
        except EndedTransaction:
            self._unapplied_to = self._swap_to  # not the horizon: to swap before a batch finds the event writes twice
            return None
        except Exception as error:
            if not self._unapplied_to or isinstance(error, StaleLease) or trouble_of(error) != "bug":
                raise
            return None
        self.bus.emit(ProjectionSwapped(self.projection.name, upto, how))
        return Completed()

    def _swap(self, state: ShardState) -> Body:
        """One transaction: hold the shards, apply what is left up to exactly there, swap, move the checkpoints."""
        name, at, self._unapplied_to = self.projection.name, self.written, 0
        upto = max(at, (yield lock_checkpoints(name)))
        begun = yield enter_batch(name, self.number, self.job.claimed)
        self._unapplied_to = self._swap_to = upto
        while at < upto:
            events: list[Event] = yield read_between(at, upto, like=state.like_types, n=BATCH_FAR)
            yield from self._in_shadow(events, begun.mark)
            at = events[-1].position if len(events) == BATCH_FAR else upto
        self._unapplied_to = 0
        swapping = swap_shadow(name, self.projection.shards, upto)
        how = yield at_its_end(swapping, self.projection.ended)
        yield self.projection.planned()  # there may be more shards now, each needs a row
        return how, upto
