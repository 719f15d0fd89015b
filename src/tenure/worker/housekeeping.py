"""The housekeeper: sweeps, archive, schedules and vacuum, done by the worker whose turn it is; and its own tally."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from ..app.chore import Chore
from ..events import BatchEnded, ChoreDone, ChoreFailed, LeasesSwept, ScheduleFired, WorkerSeen
from ..model.rows import Swept
from ..postgres import handoff
from ..postgres.connection import QueueConnection
from ..postgres.patience import Patience
from ..postgres.runner import run
from ..postgres.sqlstates import trouble_of
from ..verbs.batches import tell_batches
from ..verbs.fleet import Turn, evict, notice, sweep_workers, tell, vacuum_live
from ..verbs.journal import FORGET_MAX, keep_journal
from ..verbs.lately import note_backlog
from ..verbs.lifecycle import FORGOTTEN_MAX, archive, note_forgotten, sweep, sweep_pages
from ..verbs.questions import dead_share, first_claim, live_pages
from ..verbs.statement import Statement
from . import homes
from .chore_turns import NO_FLOOR, ChoreTurns
from .cron import fire_due
from .db_thread import DbThread
from .news import News
from .shared import Shared

DECLARE_SECONDS = 3600.0
DEAD_ROWS_MIN = 20_000  # below it a vacuum is not worth its cost
PAGES = 2_000  # of the hot table, looked at in one go
FLOOR_MARGIN_SECONDS = 1.0
LAST = "backlog"  # a picture: no other chore waits for it
FORGETTING_SECONDS_MAX = 2.0  # in one go: leases must be swept meanwhile


class Housekeeper(DbThread):
    """Does the chores that this worker is given; `chore_turns` knows when to ask for them."""

    def __init__(
        self,
        shared: Shared,
        news: News,
        turns: ChoreTurns,
        declaration: Callable[[], Statement[int]],
        more: Mapping[str, Chore] | None = None,
        own: Mapping[str, Callable[[QueueConnection], str]] | None = None,
    ) -> None:
        super().__init__(
            "housekeeper", shared, shared.terms.url, Patience(statement_seconds=300, lock_seconds=5, doubt_seconds=5)
        )
        self._news, self._turns, self._declaration = news, turns, declaration
        self._declare_at = time.monotonic() + DECLARE_SECONDS
        self._kept_dead = 0
        self._searched_to = 0  # pages of the hot table, for keys that claims have forgotten
        self._unfinished: set[str] = set()  # chores to continue, due or not
        self._chores: dict[str, Callable[[QueueConnection], str]] = {
            "fleet": self._mind_fleet,
            "leases": self._sweep,
            "every_row": self._see_every_row,
            "workers": self._sweep_workers,
            "schedules": self._fire,
            "archive": self._archive,
            "vacuum": self._vacuum,
            "declare": self._declare,
            "journal": self._keep_journal,
            "batches": self._tell_batches,
            "backlog": self._note_backlog,
            **{name: partial(_run_chore, chore) for name, chore in (more or {}).items()},
            **(own or {}),
        }
        if handoff.CHORE in self._chores:
            self._chores[handoff.CHORE] = self._adopt

    def work(self, conn: QueueConnection) -> None:
        """Turn after turn. A worker without housekeeping still writes its own tally."""
        while True:
            turn = self._turns.wait()
            if self.ended.is_set():
                self._leave(conn)
                return
            if self.shared.terms.housekeeping:
                self._turn(conn, turn)
            if self.shared.tally.due():
                self._tally(conn)
            if time.monotonic() > self._declare_at:
                self._declare_at = time.monotonic() + DECLARE_SECONDS
                self._do(conn, "declare")
            self.worked()

    def end(self) -> None:
        """Ask the thread to return soon."""
        super().end()
        self._turns.stop_waiting()

    def _leave(self, conn: QueueConnection) -> None:
        """Before it ends: schedules of an inbox that is to be served no longer go to those that will be."""
        if homes.CHORE in self._chores and self.shared.terms.housekeeping:
            self._do(conn, homes.CHORE)

    def _turn(self, conn: QueueConnection, turn: Turn | None) -> None:
        """Do what is due: the turn that came with a poll, or else the one that is asked for now."""
        turn = turn or run(conn, self._turns.ask())
        self.worked()
        for chore in sorted(turn.due | self._unfinished, key=lambda chore: (chore == LAST, chore)):
            if chore in turn.idle - self._unfinished:
                self.shared.bus.emit(ChoreDone(self.shared.worker_id, chore, ""))
            elif chore in self._chores:
                self._do(conn, chore)

    def _tally(self, conn: QueueConnection) -> None:
        failed = self.shared.tally.write(conn)
        if failed:
            self.shared.bus.emit(ChoreFailed(self.shared.worker_id, "tally", failed))

    def _do(self, conn: QueueConnection, chore: str) -> None:
        """One chore; if it fails, say so and go on with the others."""
        try:
            self.shared.bus.emit(ChoreDone(self.shared.worker_id, chore, self._chores[chore](conn)))
        except Exception as error:
            if trouble_of(error) == "away":
                raise
            self.shared.bus.emit(ChoreFailed(self.shared.worker_id, chore, " ".join(str(error).split())[:300]))

    def _mind_fleet(self, conn: QueueConnection) -> str:
        """Notice whose session is gone, and end the leases of workers that stay away."""
        terms = self.shared.terms
        seen = run(conn, notice(grace_seconds=terms.grace_seconds))
        for other, how in seen.items():
            self.shared.bus.emit(WorkerSeen(self.shared.worker_id, other, how))
        if "gone" in seen.values():
            self._turns.watch(terms.grace_seconds)
        swept = run(conn, evict(grace_seconds=terms.grace_seconds))
        if "dead" in seen.values():
            run(conn, tell("ring"))
        return self._swept(conn, swept, "worker_gone")

    def _sweep(self, conn: QueueConnection) -> str:
        floor = self._turns.sweep_from
        swept = run(conn, sweep(from_until=floor))
        self._turns.sweep_from = run(conn, first_claim(floor)) - FLOOR_MARGIN_SECONDS
        return self._swept(conn, swept, "lease_expired")

    def _see_every_row(self, conn: QueueConnection) -> str:
        """The net under the sweep, for what its list of claims does not have, and the net under claims by key."""
        swept: list[Swept] = []
        self._turns.sweep_from = NO_FLOOR
        pages = run(conn, live_pages())
        for first in range(0, pages + 1, PAGES):
            found = run(conn, sweep_pages(first, PAGES))
            swept += found
            self.worked()
        forgotten = self._note_forgotten(conn, pages)
        return ", ".join(filter(None, [self._swept(conn, swept, "lease_expired"), forgotten]))

    def _note_forgotten(self, conn: QueueConnection, pages: int) -> str:
        """Some pages a turn, and the next ones in the next turn: each key on them may cost a look."""
        first = self._searched_to if self._searched_to <= pages else 0
        self._searched_to = first + PAGES
        noted = run(conn, note_forgotten(first, PAGES))
        if not noted:
            return ""
        run(conn, tell("queues"))
        self._news.wake()
        return f"{noted} forgotten key{'s' * (noted > 1)}"

    def _swept(self, conn: QueueConnection, swept: list[Swept], reason: str) -> str:
        if not swept:
            return ""
        self.shared.bus.emit(LeasesSwept(self.shared.worker_id, len(swept), reason))
        run(conn, tell("queues"))
        self._news.wake()
        return f"{len(swept)} rows"

    def _sweep_workers(self, conn: QueueConnection) -> str:
        gone = run(conn, sweep_workers(ttl_seconds=self.shared.terms.ttl_seconds))
        for other, how in gone.items():
            self.shared.bus.emit(WorkerSeen(self.shared.worker_id, other, how))
        if "dead" in gone.values():
            run(conn, tell("ring"))
        return f"{len(gone)} workers" if gone else ""

    def _fire(self, conn: QueueConnection) -> str:
        done = fire_due(conn)
        for fired in done.fired:
            self.shared.bus.emit(ScheduleFired(self.shared.worker_id, fired.name, len(fired.ticks)))
        return ", ".join([*(fired.name for fired in done.fired), *(f"{n}: {why}" for n, why in done.unfired.items())])

    def _archive(self, conn: QueueConnection) -> str:
        """Round after round, one transaction each, while there is as much to delete as one round can."""
        terms, done = self.shared.terms, Counter[str]()
        until = time.monotonic() + FORGETTING_SECONDS_MAX
        self._unfinished.add("archive")
        while "archive" in self._unfinished:
            one = run(conn, archive(retention_seconds=terms.retention_seconds, n=FORGOTTEN_MAX))
            done.update(one)
            if not any(n >= FORGOTTEN_MAX for what, n in one.items() if what.endswith("_forgotten")):
                self._unfinished.remove("archive")
            elif time.monotonic() > until:
                break
        return ", ".join(f"{n} {what}" for what, n in done.items() if n)

    def _keep_journal(self, conn: QueueConnection) -> str:
        """Partitions ahead, and one round of what is past retention; the rest in the next turn."""
        done = run(conn, keep_journal())
        if done.get("events_forgotten", 0) >= FORGET_MAX:
            self._unfinished.add("journal")
        else:
            self._unfinished.discard("journal")
        return ", ".join(f"{n} {what}" for what, n in done.items() if n)

    def _tell_batches(self, conn: QueueConnection) -> str:
        ended = run(conn, tell_batches())
        for each in ended:
            self.shared.bus.emit(BatchEnded(self.shared.worker_id, *each))
        return f"{len(ended)} batches" if ended else ""

    def _note_backlog(self, conn: QueueConnection) -> str:
        run(conn, note_backlog())
        return ""

    def _adopt(self, conn: QueueConnection) -> str:
        """Begin with ranges of keys that Citus has moved here, if no other inbox has rows of them."""
        done = handoff.adopt(conn, self.shared.terms.url, self.shared.terms.schema)
        if done.adopted.rows:
            run(conn, tell("queues"))
            self._news.wake()
        return str(done)

    def _declare(self, conn: QueueConnection) -> str:
        """Say again what was declared at the start: what nobody says for a month is forgotten."""
        return f"{run(conn, self._declaration())} kinds"

    def _vacuum(self, conn: QueueConnection) -> str:
        """Autovacuum runs at most once a minute; a busy queue makes too many dead versions in seconds."""
        dead, live = run(conn, dead_share())
        if dead < max(DEAD_ROWS_MIN, live // 5, self._kept_dead):
            self._kept_dead = min(self._kept_dead, 2 * dead)
            return ""
        run(conn, vacuum_live())
        # A vacuum cannot remove what an open snapshot needs: run the next one when there are twice as many.
        self._kept_dead = 2 * dead
        return f"{dead} dead versions"


def _run_chore(chore: Chore, conn: QueueConnection) -> str:
    """A chore of the application; what it answers is told."""
    answer = run(conn, chore.made())
    return "" if not answer else str(answer)[:300]
