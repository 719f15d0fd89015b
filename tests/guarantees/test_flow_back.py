"""Flows that come back, by redrive or to be undone, and those that do not: each by its own records, run and state."""

from __future__ import annotations

from uuid import UUID

import pytest

from guarantees.facts import Beside, user_connection, waits_for_a_lock
from tenure.model.rows import NewRow
from tenure.verbs import batches, cancel, redrive, settle, steps
from tenure.verbs.batches import group
from tenure.verbs.operators import delete, erase
from tenure.verbs.questions import why
from tenure.verbs.steps import Parking, Recording, Step, Wait
from world import World

pytestmark = pytest.mark.one_server
FLOW = {"tenure-flow": "checkout"}
DONE, FAILED = Step("", 0, "charge", "done"), Step("", 1, "ship", "failed", tries=5, result='{"asked": [2]}')
UNDOING, UNDONE = Step("undone", 0, "undone", "begun"), Step("undone", 0, "undone", "done")


def _dead(
    world: World,
    *records: Step,
    run: int = 1,
    status: str = "dead_letter",
    headers: dict[str, str] | None = None,
) -> UUID:
    """A flow that has ended badly, with these records of a run."""
    id = world.enqueue("checkout", headers={**FLOW, **(headers or {})})
    lease = world.claim_one()
    if records:
        world.run(steps.record([Recording(lease, run, records)]))
    end = settle.dead_letter if status == "dead_letter" else settle.fail
    world.run(end([lease.lease], ["boom"]))
    return id


def _states(world: World, id: UUID, run: int = 1) -> list[tuple[str, str, int]]:
    return [(step.name, step.state, step.tries) for step in world.run(steps.recall([(id, run)]))[id]]


def _header(world: World, id: UUID, name: str) -> str | None:
    ((found,),) = world.sql("SELECT headers ->> %s FROM live WHERE id = %s", name, id)
    return None if found is None else str(found)


def test_a_redrive_opens_what_failed_of_its_own_flow_and_run(world: World) -> None:
    other, undone = _dead(world, DONE, FAILED), _dead(world, DONE, FAILED, UNDONE)
    id = _dead(world, DONE, FAILED, headers={"tenure-cancel": "late"})
    world.run(redrive([id]))
    assert _states(world, id) == [("charge", "done", 1), ("ship", "retrying", 0)]
    assert world.sql("SELECT result FROM steps WHERE state = 'retrying'") == [(None,)]
    assert (_header(world, id, "tenure-run"), _header(world, id, "tenure-cancel")) == (None, None)
    assert _states(world, other) == [("charge", "done", 1), ("ship", "failed", 5)]
    world.run(redrive([undone]))
    assert _header(world, undone, "tenure-run") == "2"
    assert _states(world, undone)[1] == ("ship", "failed", 5)


@pytest.mark.parametrize("how", ["call", "map"])
def test_why_says_of_a_failed_child_which_call_it_is_and_that_it_goes_first(world: World, how: str) -> None:
    child = [Step("1.0", 4, f"{how}:pack", "done", result="7"), Step("1.0", 5, "group:7", "done")]
    id = _dead(world, DONE, *child, Step("1.0", 6, "ends", "failed", result='{"asked": [2, 7]}'))
    back = f"redrive what failed of its {how} of pack and let it end, then this one, which looks at it again"
    assert back in world.run(why(id))
    own = Step("", 3, "ends", "failed", result='{"asked": [4]}')  # a step that somebody has named so
    assert "tries step ends again" in world.run(why(_dead(world, DONE, own)))


def test_a_redrive_looks_at_the_run_that_ended(world: World) -> None:
    id = _dead(world, DONE, FAILED, run=2, headers={"tenure-run": "2"})
    world.sql(
        "INSERT INTO steps (row_id, run, path, n, name, state, fence_token, recorded_at)"
        " SELECT row_id, 1, p.path, p.n, p.path, p.state, 1, now()"
        " FROM steps, (VALUES ('undone', 0, 'done'), ('', 9, 'failed')) AS p (path, n, state)"
        " WHERE row_id = %s AND steps.n = 0",
        id,
    )
    assert world.run(steps.cancel_flow(id))[1] == "asked"
    assert _header(world, id, "tenure-run") == "2"
    assert ("", "failed", 1) in _states(world, id, 1)
    assert ("ship", "retrying", 0) in _states(world, id, 2)


def test_a_redrive_of_a_flow_that_was_undoing_opens_the_undo_alone_and_stays_cancelled(world: World) -> None:
    undo = [Step("undo", 0, "undo:ship", "failed"), UNDOING]
    id = _dead(world, DONE, FAILED, *undo, headers={"tenure-cancel": "no stock"})
    world.run(redrive([id]))
    assert ("undo:ship", "retrying", 0) in _states(world, id)
    assert ("ship", "failed", 5) in _states(world, id)
    assert _header(world, id, "tenure-cancel") == "no stock"


def test_a_redrive_gives_a_row_that_is_no_flow_its_headers_as_they_were(world: World) -> None:
    id = world.enqueue("plain", headers={"a": "b"})
    world.run(settle.dead_letter([world.claim_one().lease], ["boom"]))
    world.run(redrive([id]))
    assert world.sql("SELECT headers FROM live") == [({"a": "b"},)]


def test_a_cancel_brings_back_a_dead_letter_that_has_something_to_undo_and_no_other(world: World) -> None:
    plain = world.enqueue("plain")
    world.run(settle.dead_letter([world.claim_one().lease], ["boom"]))
    begun, undoing = _dead(world, DONE), _dead(world, DONE, UNDOING)
    others = [_dead(world), _dead(world, DONE, UNDONE), _dead(world, DONE, FAILED, status="failed"), plain]
    world.sql("INSERT INTO steps SELECT %s, 1, '', 0, 'x', 'done', 1, 0, 1, now()", plain)
    answers = ["ended", "ended", "ended", "unknown"]
    assert [world.run(steps.cancel_flow(id))[1] for id in others] == answers
    assert world.count("live") == 0
    for n, id in enumerate((begun, undoing), 1):
        assert world.run(steps.cancel_flow(id, reason="no stock"))[1] == "asked"
        assert (world.status(id), _header(world, id, "tenure-cancel")) == ("pending", "no stock")
        assert world.count("live") == n


def test_a_cancel_that_waited_for_a_redrive_reaches_the_flow_that_runs_again(world: World) -> None:
    id, plain = _dead(world, DONE, FAILED), _dead(world, DONE)
    first, second = user_connection(world), world.connect()
    for each, end, outcome in ((id, redrive, "asked"), (plain, erase, "unknown")):
        assert world.run(end([each]), first) == [each]
        late = Beside(lambda each=each: world.run(steps.cancel_flow(each, reason="no stock"), second))  # type: ignore[misc]
        waits_for_a_lock(world, second)
        first.commit()
        assert late.result() == (each, outcome)
    assert _header(world, id, "tenure-cancel") == "no stock"


BEHIND = Step("", 2, "pack", "done")
BESIDE = '{"asked": [3]}'  # the third was asked for before the second failed
BELOW = FAILED._replace(path="1.0", n=2, result='{"asked": [2, 4]}')
WON = Step("", 1, "first", "done", 2, result="0")  # by the first of two branches


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([DONE, FAILED], "redrive tries step ship again"),
        ([DONE, FAILED, BEHIND], "redrive goes on from its records"),
        ([DONE, FAILED._replace(result=BESIDE), BEHIND], "redrive tries step ship again"),
        ([BELOW, BEHIND], "redrive goes on from its records"),
        ([BELOW._replace(result='{"asked": [3, 4]}'), BEHIND], "redrive tries step ship again"),
        ([BELOW, BEHIND._replace(path="1.0", n=4)], "redrive goes on from its records"),
        ([BELOW, BEHIND._replace(path="1.0", n=3)], "redrive tries step ship again"),
        ([FAILED, FAILED._replace(n=2, name="pack", result=BESIDE)], "redrive tries step pack again"),
        ([BEHIND._replace(path="1.1", n=4), BELOW], "redrive tries step ship again"),
        ([DONE, FAILED, BEHIND._replace(path="2.0", n=0)], "redrive goes on from its records"),
        ([DONE, FAILED._replace(result=BESIDE), BEHIND._replace(path="2.0", n=9)], "redrive tries step ship again"),
        ([BELOW, BEHIND._replace(path="1.0/4.1", n=0)], "redrive goes on from its records"),
        ([BELOW, BEHIND._replace(path="1.0/3.1", n=9)], "redrive tries step ship again"),
        ([BELOW, BEHIND._replace(path="1.1/9.0", n=0)], "redrive tries step ship again"),
        ([BELOW, BEHIND._replace(path="1.0/10.1", n=0)], "redrive goes on from its records"),
        ([BELOW, WON], "redrive tries step ship again"),
        ([BELOW, WON._replace(result="1")], "redrive goes on from its records"),
        ([BELOW, WON._replace(n=0, result="1")], "redrive tries step ship again"),
        (
            [BELOW._replace(path="1.0/3.1", result='{"asked": [2, 4, 4]}'), WON._replace(path="1.0", n=3)],
            "redrive goes on from its records",
        ),
    ],
)
def test_why_names_the_step_that_a_redrive_tries_again(world: World, records: list[Step], said: str) -> None:
    behind = [Step("", 9, "last", "done"), Step("9.0", 0, "last", "done"), WON._replace(result="7")]
    other, id = _dead(world, DONE, *behind), _dead(world, *records)
    world.sql("UPDATE steps SET recorded_at = now() - n * interval '1 s'")  # the last of them is not the last in time
    world.sql(
        "INSERT INTO steps (row_id, run, path, n, name, state, fence_token, recorded_at, result)"
        " SELECT %s, 2, path, n, name, state, 1, now(), result FROM steps WHERE row_id = %s AND run = 1",
        id,
        other,
    )
    assert f"{said}, `tenure flow cancel` undoes what it did." in world.run(why(id))
    world.run(redrive([id, other]))
    tried = [name for name, state, _ in _states(world, id) if state == "retrying"]
    assert tried == ([said.split()[3]] if "step" in said else [])


def _parked(world: World) -> UUID:
    """A flow of a group that has begun, and waits."""
    world.run(batches.open_group([NewRow("checkout", {}, headers=FLOW)]))
    lease = world.claim_one()
    world.run(steps.record([Recording(lease, 1, [DONE])]))
    world.run(steps.park([Parking(lease, [Wait("", 1, "wait:shipped", seconds=60.0)])]))
    return lease.id


def test_a_flow_that_is_asked_to_undo_lives_on_and_is_not_counted_as_ended(world: World) -> None:
    id, fresh = _parked(world), world.enqueue("checkout", headers=FLOW)
    assert world.run(cancel([id, fresh])) == {id: "asked", fresh: "cancelled"}
    assert world.sql("SELECT id FROM dead") == [(fresh,)]
    assert world.sql("SELECT cancel_asked, headers ? 'tenure-cancel' FROM live") == [(False, True)]
    ((batch,),) = world.sql("SELECT id FROM groups")
    found = world.run(group(batch))
    assert found is not None
    assert found.open == 1
    assert world.run(cancel([id], undone=True)) == {id: "cancelled"}


def test_the_holder_of_a_flow_is_not_told_to_drop_it_but_that_it_is_to_undo(world: World) -> None:
    id = world.enqueue("checkout", headers=FLOW)
    lease = world.claim_one()
    assert world.run(cancel([id], reason="no stock")) == {id: "asked"}
    assert world.sql("SELECT cancel_asked, headers ->> 'tenure-cancel' FROM live") == [(False, "no stock")]
    (answer,) = world.run(steps.record([Recording(lease, 1, [DONE])]))
    assert answer.cancel == "no stock"  # type: ignore[union-attr]


def test_a_cancel_of_other_rows_asks_no_flow_of_theirs(world: World) -> None:
    held = world.enqueue("plain")
    assert world.claim_one().id == held
    waiting = world.enqueue("plain")
    assert world.run(cancel([held, waiting])) == {held: "asked", waiting: "cancelled"}
    assert world.sql("SELECT cancel_asked FROM live") == [(True,)]


def test_a_flow_that_has_not_begun_is_deleted_though_another_has(world: World) -> None:
    id, fresh = _parked(world), world.enqueue("checkout", headers=FLOW)
    assert world.run(delete([id, fresh])) == [fresh]


def test_a_dead_letter_that_has_not_undone_what_it_did_is_not_deleted(world: World) -> None:
    plain = world.enqueue("plain")
    world.run(settle.dead_letter([world.claim_one().lease], ["boom"]))
    world.sql("INSERT INTO steps SELECT %s, 1, '', 0, 'x', 'done', 1, 0, 1, now()", plain)
    again = _dead(world, DONE, run=2, headers={"tenure-run": "2"})
    world.sql("INSERT INTO steps SELECT %s, 1, 'undone', 0, 'undone', 'done', 1, 0, 1, now()", again)
    left = [_dead(world, DONE), _dead(world, DONE, UNDOING), again]
    free = [_dead(world), _dead(world, DONE, UNDONE), _dead(world, DONE, FAILED, status="failed"), plain]
    gone = world.run(delete([*left, *free]))
    assert sorted(gone) == sorted(free)
    assert [world.run(steps.cancel_flow(id))[1] for id in left] == ["asked"] * 3


def test_a_sleep_whose_time_is_up_is_done_and_a_wait_for_children_has_timed_out(world: World) -> None:
    group = world.run(batches.open_group([NewRow("part", {}, queue="other")])).id
    world.enqueue("checkout", headers=FLOW)
    lease = world.claim_one()
    waits = [Wait("", 0, "sleep", seconds=0.0), Wait("", 1, f"group:{group}", seconds=0.0)]
    (parked,) = world.run(steps.park([Parking(lease, waits)]))
    assert [step.state for step in parked.met] == ["done", "timed_out"]  # type: ignore[union-attr]


@pytest.mark.parametrize("reason", ["", None])
def test_a_flow_that_is_cancelled_without_a_reason_is_told_so_at_once(world: World, reason: str | None) -> None:
    parked, dead = _parked(world), _dead(world, DONE)
    for id in (parked, dead):
        assert world.sql("SELECT outcome FROM cancel_flow(%s, NULL, %s)", id, reason) == [("asked",)]
    assert world.sql("SELECT headers ->> 'tenure-cancel' FROM live") == [("on request",), ("on request",)]
