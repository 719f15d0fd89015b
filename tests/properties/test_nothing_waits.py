"""Guarantee 13 in random worlds: a row that could start does so within a poll and a second, whatever else is there.

TENURE_TEST_EXAMPLES runs it longer, TENURE_TEST_SEED elsewhere. A failure prints the world and its steps.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import servers
from properties.could_start import PROMISED_SECONDS, Waits
from properties.old_faults import FAULTS
from properties.play import Play
from properties.stepped_fleet import Stage, statements_pass, stepped
from properties.worlds import HOUR, SCENES, Send, Setting, Step, worlds
from slices import slice_of
from tenure import sql
from world import World

EXAMPLES = int(os.environ.get("TENURE_TEST_EXAMPLES", slice_of("1000", "60")))
SEED = int(os.environ.get("TENURE_TEST_SEED", "20260101"))
CONTROL_EXAMPLES = 200  # the search ends with the first that it finds


@pytest.fixture
def stage(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A stage where what counts in hundreds counts in ones."""
    whole = sql.prepared
    monkeypatch.setattr(sql, "prepared", lambda name, schema: whole(name, schema).replace(b"LIMIT 10000", b"LIMIT 8"))
    with stepped(world, monkeypatch) as made:
        yield made


one_server = pytest.mark.parametrize("server_url", servers.available()[:1], indirect=True)


def search(stage: Stage, examples: int, shrink: bool = True) -> dict[str, int]:
    """Play so many random examples; what they came to."""
    counts = {"examples": 0, "rounds": 0, "starts": 0}

    @seed(SEED)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(worlds)
    def holds(example: tuple[Setting, list[Step]]) -> None:
        setting, happens = example
        play = Play(stage, setting)
        play.play(happens)
        counts["examples"] += 1
        counts["rounds"] += play.rounds
        counts["starts"] += play.watch.starts

    try:
        holds()
    finally:
        print(counts)
    return counts


@pytest.mark.parametrize(
    ("setting", "send"),
    [
        (Setting(), Send()),
        (Setting(share="halves"), Send(keys=1)),
        (Setting(), Send(keys=1, ordered=True)),
        (Setting(limit="running"), Send()),
    ],
    ids=["all buckets", "a share", "ordered", "limited"],
)
def test_the_database_lives_in_our_time(setting: Setting, send: Send, stage: Stage) -> None:
    play = Play(stage, setting)
    stage.clock.ahead += 100 * HOUR
    stage.tell_time()
    play.play([send])
    ((claimed_at,),) = stage.world.sql("SELECT extract(epoch FROM claimed_at)::float8 FROM live")
    assert abs(claimed_at - stage.clock.database) < PROMISED_SECONDS + 1, "some function has a search path of its own"


@pytest.mark.timeout(0)
@one_server
def test_no_row_that_could_start_waits_longer_than_a_poll_and_a_second(stage: Stage) -> None:
    counts = search(stage, EXAMPLES)
    assert counts["starts"] > counts["examples"], "most examples start nothing"


@pytest.mark.parametrize("mark", SCENES)
def test_the_world_of_an_old_fault_holds(mark: str, stage: Stage) -> None:
    setting, happens = SCENES[mark]
    Play(stage, setting).play(happens)


@one_server
@pytest.mark.parametrize("mark", FAULTS)
def test_an_old_fault_put_back_is_found_in_its_world(mark: str, stage: Stage) -> None:
    setting, happens = SCENES[mark]
    with statements_pass(FAULTS[mark](stage)), pytest.raises(Waits):
        Play(stage, setting).play(happens)


@pytest.mark.timeout(0)
@one_server
@pytest.mark.parametrize("mark", FAULTS)
def test_an_old_fault_put_back_is_found_by_the_search(mark: str, stage: Stage) -> None:
    with statements_pass(FAULTS[mark](stage)), pytest.raises(Waits):
        search(stage, CONTROL_EXAMPLES, shrink=False)
