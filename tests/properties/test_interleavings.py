"""A small isolation tester: two or three sessions of named steps, in every order there is, each with its allowed end.

A step may have to wait for another session; the player sees that in pg_blocking_pids and goes on with the next step, so
nothing here sleeps. Steps of a session that still waits are played as soon as it goes on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

import servers
from tenure import verbs
from tenure.errors import StaleFence
from tenure.model.rows import Claimed, Lease, NewRow
from tenure.verbs import settle
from tenure.verbs.statement import Statement
from world import World

pytestmark = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)
TABLES = ("live", "archive", "dead", "attempts", "idempotency", "effects", "fences", "heads", "arrivals", "workers")
EMPTY = "; ".join(f"DELETE FROM {table}" for table in TABLES)
WAITING = "SELECT count(*) FROM unnest(%s::int[]) AS pid WHERE pg_blocking_pids(pid) <> '{}'"
NOBODY = UUID(int=0)
Step = Callable[["Session"], Any]


@dataclass
class Session:
    """One connection with a thread of its own, and what its steps answered."""

    world: World
    name: str
    conn: Any = None
    pid: int = 0
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    pending: list[Future[Any]] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.conn = self.world.connect()
        self.pid = self.conn.info.backend_pid

    def play(self, step: Step) -> None:
        """Start a step; it runs when the ones before it have ended."""
        self.pending.append(self.thread.submit(step, self))

    def busy(self) -> bool:
        """True while a step runs or waits."""
        self.pending = [future for future in self.pending if not (future.done() and self._keep(future))]
        return bool(self.pending)

    def _keep(self, future: Future[Any]) -> bool:
        answer = future.result()
        if answer is not None:
            self.answers.append(answer)
        return True

    @property
    def answer(self) -> Any:
        """What the session's verb answered."""
        (only,) = self.answers
        return only


class Player:
    """Plays every interleaving of the sessions' steps."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sessions = [Session(world, name) for name in "ABC"]
        self.watcher = world.connect()
        self.played = 0

    def close(self) -> None:
        """End the sessions, whatever they wait for, and their threads."""
        pids = [session.pid for session in self.sessions]
        self.watcher.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", [pids])
        for session in self.sessions:
            session.thread.shutdown()

    def every_order(self, *scripts: Sequence[Step]) -> Iterator[tuple[list[Session], str]]:
        """For each order: hand out the sessions (prepare the rows now), then play; the caller's loop body judges."""
        for order in orders([len(script) for script in scripts]):
            self.world.sql(EMPTY)
            sessions = self.sessions[: len(scripts)]
            for session in sessions:
                session.answers.clear()
            yield sessions, "prepare"
            steps = [iter(script) for script in scripts]
            for n in order:
                sessions[n].play(next(steps[n]))
                self._until_still(sessions)
            assert not any(session.busy() for session in sessions), f"order {order} left somebody waiting"
            self.played += 1
            yield sessions, "judge"

    def _until_still(self, sessions: Sequence[Session]) -> None:
        """Until every session has nothing to do or waits for a lock of another."""
        while busy := [session.pid for session in sessions if session.busy()]:
            waiting = self.watcher.execute(WAITING, [busy], prepare=True).fetchone()
            if waiting == (len(busy),):
                return


def orders(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every merge of sequences of these lengths, as the number of the sequence to take from next."""
    if not any(lengths):
        yield ()
    for n, length in enumerate(lengths):
        if length:
            for rest in orders([other - (m == n) for m, other in enumerate(lengths)]):
                yield (n, *rest)


@pytest.fixture
def player(world: World) -> Iterator[Player]:
    """A player with three sessions."""
    player = Player(world)
    try:
        yield player
    finally:
        player.close()


# -- steps


def begin(session: Session) -> None:
    """Open a transaction."""
    session.conn.execute("BEGIN")


def commit(session: Session) -> None:
    """Commit it."""
    session.conn.execute("COMMIT")


def abort(session: Session) -> None:
    """Roll it back."""
    session.conn.execute("ROLLBACK")


@dataclass
class Scene:
    """The row of the moment; scripts are written once, the row is new in every order."""

    world: World
    job: Claimed | None = None
    id: UUID = NOBODY

    @property
    def lease(self) -> Lease:
        """The lease of the moment."""
        assert self.job
        return self.job.lease

    def held(self, *, over: bool = False, **options: Any) -> None:
        """A row held by A."""
        self.id = self.world.enqueue(**options)
        self.job = self.world.claim_one("A", lease_seconds=600)
        if over:
            self.world.expire(self.job.lease)

    def run(self, make: Callable[[Scene], Statement[Any]]) -> Step:
        """A step that runs a verb."""
        return lambda session: self.world.run(make(self), session.conn)

    @property
    def complete(self) -> Step:
        """Complete the row of the moment."""
        return self.run(lambda scene: settle.complete([scene.lease]))

    @property
    def complete_late(self) -> Step:
        """Complete it even after its lease."""
        return self.run(lambda scene: settle.complete([scene.lease], accept_late=True))

    @property
    def sweep(self) -> Step:
        """Sweep."""
        return self.run(lambda _: verbs.sweep_pages())

    @property
    def renew(self) -> Step:
        """Renew the lease of the moment."""
        return self.run(lambda scene: verbs.renew([scene.lease]))

    def claim(self, worker: str) -> Step:
        """Claim one row."""
        return self.run(lambda scene: verbs.claim(worker, 1, buckets=[scene.world.row(scene.id).partition_bucket]))


@pytest.fixture
def scene(world: World) -> Scene:
    """A scene in this world."""
    return Scene(world)


def standing(session: Session) -> str:
    """How the session's settling verb was answered."""
    return str(session.answer[0].standing)


def reason(session: Session) -> str:
    """Why it was refused."""
    return str(session.answer[0].reason)


def tape_of(world: World) -> list[str]:
    """How the attempts ended that did not complete."""
    return [row[0] for row in world.sql("SELECT outcome FROM attempts")]


# -- the pairs


def test_sweep_and_complete_of_a_live_lease_always_complete(player: Player, scene: Scene) -> None:
    for (a, b), now in player.every_order([begin, scene.complete, commit], [begin, scene.sweep, commit]):
        if now == "prepare":
            scene.held()
        else:
            assert (standing(a), b.answer) == ("applied", [])
            assert scene.world.status(scene.id) == "completed"
    assert player.played == 20


def test_sweep_and_complete_of_a_lease_that_is_over_end_in_one_way_only(player: Player, scene: Scene) -> None:
    ends = set()
    for (a, b), now in player.every_order([begin, scene.complete_late, commit], [begin, scene.sweep, commit]):
        if now == "prepare":
            scene.held(over=True)
        else:
            end = (standing(a), len(b.answer), scene.world.status(scene.id), tuple(tape_of(scene.world)))
            assert end in {("applied", 0, "completed", ()), ("stale", 1, "pending", ("expired",))}
            ends.add(end)
    assert len(ends) == 2, "both ends were seen"


def test_sweep_and_renew_never_both_have_the_row(player: Player, scene: Scene) -> None:
    for over in (False, True):
        for (a, b), now in player.every_order([begin, scene.renew, commit], [begin, scene.sweep, commit]):
            if now == "prepare":
                scene.held(over=over)
            else:
                kept, swept = len(a.answer.kept), len(b.answer)
                assert (kept, swept) == ((0, 1) if over else (1, 0))


def test_a_lease_that_runs_out_after_begin_is_over_for_complete_and_renew(player: Player, scene: Scene) -> None:
    ran_out: list[bool] = []
    noticed: list[bool] = []

    def run_out(session: Session) -> None:
        session.conn.execute("UPDATE live SET lease_expires_at = clock_timestamp()")
        ran_out.append(True)

    def noting(verb: Step) -> Step:
        def step(session: Session) -> Any:
            noticed.append(bool(ran_out))
            return verb(session)

        return step

    for name, verb in (("complete", scene.complete), ("renew", scene.renew)):
        for (a, _), now in player.every_order([begin, noting(verb), commit], [run_out]):
            if now == "prepare":
                ran_out.clear()
                noticed.clear()
                scene.held()
            else:
                applied = standing(a) == "applied" if name == "complete" else bool(a.answer.kept)
                assert applied is not noticed[0]


def test_two_sweeps_end_an_attempt_once(player: Player, scene: Scene) -> None:
    for (a, b), now in player.every_order([begin, scene.sweep, commit], [begin, scene.sweep, commit]):
        if now == "prepare":
            scene.held(over=True)
        else:
            assert len(a.answer) + len(b.answer) == 1
            assert tape_of(scene.world) == ["expired"]
            assert scene.world.row(scene.id).attempts == 1


def test_a_sweep_that_aborts_leaves_the_row_to_the_next(player: Player, scene: Scene) -> None:
    for (a, b), now in player.every_order([begin, scene.sweep, abort], [begin, scene.sweep, commit]):
        if now == "prepare":
            scene.held(over=True)
        else:
            assert tape_of(scene.world) == ["expired"] * len(b.answer)
            assert len(a.answer) + len(b.answer) >= 1, "one of them found it: the other skipped it and did not wait"


def test_two_claims_never_share_a_row(player: Player, scene: Scene) -> None:
    for (a, b), now in player.every_order([begin, scene.claim("A"), commit], [begin, scene.claim("B"), commit]):
        if now == "prepare":
            scene.id = scene.world.enqueue(key="k")
        else:
            assert len(a.answer) + len(b.answer) == 1
            assert scene.world.row(scene.id).lease_generation == 1


def test_two_claims_of_two_rows_take_one_each_without_waiting(player: Player, scene: Scene) -> None:
    for (a, b), now in player.every_order([begin, scene.claim("A"), commit], [begin, scene.claim("B"), commit]):
        if now == "prepare":
            scene.id = scene.world.enqueue(key="k")
            scene.world.enqueue(key="k")
        else:
            assert {job.id for job in a.answer}.isdisjoint({job.id for job in b.answer})
            assert len(a.answer) == len(b.answer) == 1


def test_two_ordered_claims_never_have_two_rows_of_a_key_in_flight(player: Player, scene: Scene) -> None:
    def ordered(worker: str) -> Step:
        return scene.run(lambda _: verbs.claim_ordered(worker, 2))

    for (a, b), now in player.every_order([begin, ordered("A"), commit], [begin, ordered("B"), commit]):
        if now == "prepare":
            for _ in range(2):
                scene.world.enqueue(key="k", ordered=True)
        else:
            assert len(a.answer) + len(b.answer) == 1
            assert len(scene.world.keys_taken()) == 1


def test_a_completed_head_and_an_ordered_claim_hand_the_key_over_whole(player: Player, scene: Scene) -> None:
    def next_head(session: Session) -> Any:
        return scene.world.run(verbs.claim_ordered("B", 2), session.conn)

    for (a, b), now in player.every_order([begin, scene.complete, commit], [begin, next_head, commit]):
        if now == "prepare":
            for _ in range(2):
                scene.world.enqueue(key="k", ordered=True)
            (scene.job,) = scene.world.claim_ordered("A")
        else:
            assert standing(a) == "applied"
            assert scene.world.sql("SELECT count(*) FROM live WHERE status = 'processing'") == [(len(b.answer),)]
            assert len(scene.world.keys_taken()) == len(b.answer)


def test_a_redriven_head_and_an_ordered_claim_do_not_share_the_key(player: Player, scene: Scene) -> None:
    def redrive_and_claim(session: Session) -> Any:
        scene.world.run(verbs.redrive([scene.id]), session.conn)
        return scene.world.run(verbs.claim_ordered("A", 2), session.conn)

    def other_claim(session: Session) -> Any:
        return scene.world.run(verbs.claim_ordered("B", 2), session.conn)

    for _, now in player.every_order([begin, redrive_and_claim, commit], [begin, other_claim, commit]):
        if now == "prepare":
            scene.id = scene.world.enqueue(key="k", ordered=True)
            scene.world.enqueue(key="k", ordered=True)
            scene.world.fail(scene.world.claim_ordered("A")[0].lease)
        else:
            assert scene.world.sql("SELECT count(*) FROM live WHERE status = 'processing'") == [(1,)]
            assert len(scene.world.keys_taken()) == 1


def test_a_completion_sent_twice_is_applied_once_and_known_as_mine(player: Player, scene: Scene) -> None:
    for (a, b), now in player.every_order([begin, scene.complete, commit], [begin, scene.complete, commit]):
        if now == "prepare":
            scene.held()
        else:
            assert sorted([standing(a), standing(b)]) == ["already_mine", "applied"]
            assert scene.world.count("archive") == 1


def test_a_completion_waits_for_the_one_before_and_counts_if_that_aborts(player: Player, scene: Scene) -> None:
    for (_, b), now in player.every_order([begin, scene.complete, abort], [begin, scene.complete, commit]):
        if now == "prepare":
            scene.held()
        else:
            assert standing(b) == "applied"
            assert scene.world.status(scene.id) == "completed"


@pytest.mark.parametrize("verb", ["retry", "release", "fail", "dead_letter"])
def test_an_attempt_ends_by_its_holder_or_by_the_sweep_never_by_both(player: Player, scene: Scene, verb: str) -> None:
    def end(scene: Scene) -> Statement[Any]:
        return settle.release([scene.lease]) if verb == "release" else getattr(settle, verb)([scene.lease], ["boom"])

    for (a, b), now in player.every_order([begin, scene.run(end), commit], [begin, scene.sweep, commit]):
        if now == "prepare":
            scene.held(over=True)
        else:
            assert (standing(a), len(b.answer)) in {("applied", 0), ("stale", 1)}
            assert len(tape_of(scene.world)) == 1
            assert scene.world.row(scene.id).attempts == (0 if standing(a) == "applied" and verb == "release" else 1)


def test_cancel_and_complete_leave_a_completed_row(player: Player, scene: Scene) -> None:
    cancel = scene.run(lambda scene: verbs.cancel([scene.id]))
    for (a, b), now in player.every_order([begin, scene.complete, commit], [begin, cancel, commit]):
        if now == "prepare":
            scene.held()
        else:
            assert standing(a) == "applied"
            assert b.answer in ({}, {scene.id: "asked"})
            assert scene.world.status(scene.id) == "completed"


def test_cancel_and_claim_leave_a_cancelled_row_or_an_asked_holder(player: Player, scene: Scene) -> None:
    cancel = scene.run(lambda scene: verbs.cancel([scene.id]))
    for (a, b), now in player.every_order([begin, scene.claim("A"), commit], [begin, cancel, commit]):
        if now == "prepare":
            scene.id = scene.world.enqueue(key="k")
        else:
            row = scene.world.row(scene.id)
            assert (len(a.answer), b.answer[scene.id], row.status, row.cancel_asked) in {
                (1, "asked", "processing", True),
                (0, "cancelled", "cancelled", False),
            }


def test_two_redrives_bring_a_row_back_once(player: Player, scene: Scene) -> None:
    redrive = scene.run(lambda scene: verbs.redrive([scene.id]))
    for (a, b), now in player.every_order([begin, redrive, commit], [begin, redrive, commit]):
        if now == "prepare":
            scene.held()
            scene.world.fail(scene.lease)
        else:
            assert len(a.answer) + len(b.answer) == 1
            assert scene.world.status(scene.id) == "pending"
            assert scene.world.row(scene.id).lease_generation == 1


@pytest.mark.parametrize("first_ends", [commit, abort])
def test_two_enqueues_of_one_key_make_one_row_whatever_becomes_of_the_first(
    player: Player, scene: Scene, first_ends: Step
) -> None:
    enqueue = scene.run(lambda _: verbs.enqueue(NewRow("a", {}, idempotency_key="i")))
    for (a, b), now in player.every_order([begin, enqueue, first_ends], [begin, enqueue, commit]):
        if now == "judge":
            outcomes = (a.answer.outcome, b.answer.outcome)
            assert scene.world.count("live") == scene.world.count("idempotency") == 1
            assert scene.world.row(b.answer.id).status == "pending"
            if first_ends is commit:
                assert sorted(outcomes) == ["duplicate", "enqueued"]
                assert a.answer.id == b.answer.id
            else:
                assert b.answer.outcome == "enqueued"


def test_two_transactions_pass_an_effect_once(player: Player, scene: Scene) -> None:
    once = scene.run(lambda scene: verbs.once(scene.lease, "mail"))
    for (a, b), now in player.every_order([begin, once, commit], [begin, once, commit]):
        if now == "prepare":
            scene.held()
        else:
            assert sorted([a.answer, b.answer]) == [False, True]


def test_a_newer_token_waits_for_an_older_writer_and_the_older_is_refused_after_it(
    player: Player, scene: Scene
) -> None:
    def write(token: int) -> Step:
        def step(session: Session) -> bool:
            with contextlib.suppress(StaleFence):
                return scene.world.run(verbs.fence("bank", token), session.conn) == token
            return False

        return step

    for (a, b), now in player.every_order([begin, write(1), commit], [begin, write(2), commit]):
        if now == "judge":
            assert b.answer is True
            assert scene.world.sql("SELECT fence_token FROM fences") == [(2,)]
            assert a.answer in (True, False)


# -- the triples


def test_sweep_complete_and_renew_together_end_in_a_legal_state(player: Player, scene: Scene) -> None:
    scripts = [
        [begin, scene.complete_late, commit],
        [scene.sweep],
        [begin, scene.renew, commit],
    ]
    for (a, b, c), now in player.every_order(*scripts):
        if now == "prepare":
            scene.held(over=True)
        else:
            assert (standing(a), len(b.answer)) in {("applied", 0), ("stale", 1)}
            assert not c.answer.kept
            assert scene.world.status(scene.id) == ("completed" if standing(a) == "applied" else "pending")
            assert len(tape_of(scene.world)) == (0 if standing(a) == "applied" else 1)
    assert player.played == 140


def test_a_stale_holder_a_sweep_and_a_new_claim_accept_one_completion(player: Player, scene: Scene) -> None:
    def reclaim(session: Session) -> int:
        session.conn.execute("UPDATE live SET available_at = created_at WHERE status = 'pending'")
        jobs = scene.world.run(
            verbs.claim("A", 1, buckets=[scene.job.partition_bucket if scene.job else 0]), session.conn
        )
        return sum(scene.world.run(settle.complete([job.lease]), session.conn)[0].ok for job in jobs)

    sweep_now = scene.run(lambda _: verbs.sweep_pages())
    for (a, b, c), now in player.every_order(
        [begin, scene.complete_late, commit], [sweep_now], [begin, reclaim, commit]
    ):
        if now == "prepare":
            scene.held(over=True, key="k")
        else:
            accepted = (standing(a) == "applied") + c.answer
            assert accepted == scene.world.count("archive") <= 1
            assert len(b.answer) + (standing(a) == "applied") == 1
