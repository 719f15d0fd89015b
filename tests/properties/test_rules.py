"""The small rules: retries wait within their bounds, shards keep order, reconnects are paced, nonsense is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.errors import BadSettings, InvalidPayload
from tenure.model.backoff import Exponential, Fixed, Linear, Policy, budget_seconds, check_backoff, delay_for
from tenure.model.jitter import Pace, jittered
from tenure.model.limits import DELAY_SECONDS_MAX, KEY_BYTES_MAX
from tenure.model.shards import SHARDS_MAX, shard, shards, unsharded

quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)
CHANCES = st.floats(0, 1, exclude_max=True)
SECONDS = st.floats(0.001, DELAY_SECONDS_MAX)
JITTERS = st.floats(0, 1)
POLICIES: st.SearchStrategy[Policy] = st.one_of(
    st.builds(Exponential, SECONDS, st.floats(1, 1000), st.just(DELAY_SECONDS_MAX), JITTERS),
    st.builds(Linear, SECONDS, st.just(DELAY_SECONDS_MAX), JITTERS),
    st.builds(Fixed, SECONDS, JITTERS),
)
KEYS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=100)


# Backoff


def test_the_default_waits_as_the_database_does() -> None:
    """2, 4, 8 … 2048, then the hour; tenure.backoff says the same, and adds up to a quarter as well."""
    waits = [Exponential().delay_seconds(attempt, chance=0) for attempt in range(1, 15)]
    assert waits == [float(min(2**attempt, 3600)) for attempt in range(1, 15)]
    assert Exponential().delay_seconds(3, chance=0.5) == 8 * 1.125


def test_linear_grows_by_its_step_and_fixed_does_not_grow() -> None:
    assert [Linear(10, most_seconds=35).delay_seconds(n, chance=0) for n in (1, 2, 3, 4, 5)] == [10, 20, 30, 35, 35]
    assert [Fixed(7).delay_seconds(n, chance=0.9) for n in (1, 2, 1000)] == [7, 7, 7]


@quick
@given(POLICIES, st.integers(1, 10**6), CHANCES)
def test_no_attempt_overflows_and_jitter_only_adds(policy: Policy, attempt: int, chance: float) -> None:
    steady = policy.delay_seconds(attempt, chance=0)
    drawn = policy.delay_seconds(attempt, chance=chance)
    assert 0 <= steady <= drawn <= steady * (1 + policy.jitter)
    assert math.isfinite(drawn)
    assert delay_for(policy, attempt, chance) == min(drawn, DELAY_SECONDS_MAX)


@quick
@given(POLICIES, st.integers(1, 10**6), CHANCES)
def test_a_later_attempt_never_waits_less(policy: Policy, attempt: int, chance: float) -> None:
    assert policy.delay_seconds(attempt, chance=chance) <= policy.delay_seconds(attempt + 1, chance=chance)


def test_the_documented_budgets_are_true() -> None:
    calm = Exponential(jitter=0)
    assert budget_seconds(calm, 5) == 30
    assert round(budget_seconds(calm, 10) / 60) == 17
    assert round(budget_seconds(calm, 20) / 3600) == 9
    assert budget_seconds(Exponential(), 5) == 37.5
    assert budget_seconds(Linear(10, jitter=0), 5) == 100
    assert budget_seconds(Linear(10, jitter=0), 10) == 450
    assert budget_seconds(Fixed(3), 4) == 9
    assert budget_seconds(Fixed(3), 1) == 0


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, -math.inf, "5", None, True, 10**400])
@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("first_seconds", lambda bad: Exponential(first_seconds=bad)),
        ("factor", lambda bad: Exponential(factor=bad)),
        ("most_seconds", lambda bad: Exponential(most_seconds=bad)),
        ("jitter", lambda bad: Exponential(jitter=bad)),
        ("step_seconds", lambda bad: Linear(bad)),
        ("most_seconds", lambda bad: Linear(1, most_seconds=bad)),
        ("jitter", lambda bad: Linear(1, jitter=bad)),
        ("seconds", lambda bad: Fixed(bad)),
        ("jitter", lambda bad: Fixed(1, jitter=bad)),
    ],
)
def test_a_policy_refuses_numbers_that_are_no_wait(name: str, build: Callable[[Any], Policy], bad: object) -> None:
    with pytest.raises(BadSettings, match=rf"\b{name}=.* must be a number between .*: "):
        build(bad)


def test_a_policy_refuses_numbers_that_contradict_each_other() -> None:
    with pytest.raises(BadSettings, match=r"first_seconds=90 .* most_seconds=60"):
        Exponential(first_seconds=90, most_seconds=60)
    with pytest.raises(BadSettings, match=r"factor=0\.5 .* between 1 and"):
        Exponential(factor=0.5)
    with pytest.raises(BadSettings, match=r"step_seconds=0 would never grow: write Fixed\(0\)"):
        Linear(0)


def test_no_policy_leaves_the_wait_to_the_database() -> None:
    assert delay_for(None, 3, 0.5) is None


def test_a_function_is_taken_at_its_word_up_to_ten_years() -> None:
    assert delay_for(lambda attempt: attempt * 60, 3, 0.9) == 180.0
    assert delay_for(lambda _: 0, 3, 0.9) == 0.0
    assert delay_for(lambda _: 10**400, 3, 0.9) == DELAY_SECONDS_MAX
    assert delay_for(lambda _: math.inf, 3, 0.9) == DELAY_SECONDS_MAX


@pytest.mark.parametrize("answer", [math.nan, -0.1, -math.inf, None, "5", UUID(int=0)])
def test_a_function_that_answers_no_wait_is_refused_by_name(answer: Any) -> None:
    def my_backoff(attempt: int) -> float:
        return answer  # type: ignore[no-any-return]

    with pytest.raises(BadSettings, match=r"my_backoff returned .* for attempt 3: it must return seconds"):
        delay_for(my_backoff, 3, 0.5)


@pytest.mark.parametrize("wrong", [5, "exponential", Exponential])
def test_what_is_no_policy_is_refused_with_one_that_is(wrong: Any) -> None:
    with pytest.raises(BadSettings, match=r"must be a policy: write Exponential\(\), Fixed\(5\)"):
        check_backoff(wrong)
    with pytest.raises(BadSettings, match="must be a policy"):
        delay_for(wrong, 1, 0.5)


@pytest.mark.parametrize("right", [None, Exponential(), Linear(1), Fixed(0), lambda _: 1.0])
def test_what_is_a_policy_is_taken(right: Any) -> None:
    check_backoff(right)


# Shards


def test_the_shard_of_an_entity_is_a_contract_and_does_not_change_silently() -> None:
    assert shard("tenant:123", 8, "a") == "tenant:123#shard-7"
    assert [shard("k", 1024, by) for by in ("b", "ü", 7)] == ["k#shard-927", "k#shard-981", "k#shard-81"]


@quick
@given(KEYS, st.integers(1, SHARDS_MAX), st.one_of(st.integers(), KEYS))
def test_an_entity_always_falls_to_the_same_shard_of_its_key(key: str, of: int, by: str | int) -> None:
    chosen = shard(key, of, by)
    assert chosen == shard(key, of, by) == shard(key, of, str(by))
    assert chosen in shards(key, of)
    assert unsharded(chosen) == key


@quick
@given(KEYS, st.integers(1, SHARDS_MAX))
def test_the_shards_of_a_key_are_all_different_and_lead_back_to_it(key: str, of: int) -> None:
    every = shards(key, of)
    assert len(set(every)) == of
    assert {unsharded(one) for one in every} == {key}


def test_entities_spread_evenly_over_the_shards() -> None:
    drawn = [shard("tenant:123", 8, by) for by in range(4000)]
    assert all(400 <= drawn.count(one) <= 600 for one in shards("tenant:123", 8))


def test_without_an_entity_any_shard_will_do() -> None:
    assert {shard("tenant:123", 4) for _ in range(400)} == set(shards("tenant:123", 4))


def test_one_shard_is_the_key_itself() -> None:
    assert shard("tenant:123", 1) == shard("tenant:123", 1, "order-9") == "tenant:123"
    assert shards("tenant:123", 1) == ("tenant:123",)


@pytest.mark.parametrize("key", ["tenant:123", "a#b", "a#shard-", "a#shard-x", "a#shard-3:b", "a#shard-12345", ""])
def test_what_is_no_shard_is_left_as_it_is(key: str) -> None:
    assert unsharded(key) == key


@pytest.mark.parametrize("of", [0, -1, SHARDS_MAX + 1, 2.0, True, "4", None])
def test_a_count_of_shards_that_cannot_be_is_refused(of: Any) -> None:
    for ask in (shard, shards):
        with pytest.raises(InvalidPayload, match=r"of=.* must be a whole number between 1 and 1024"):
            ask("tenant:123", of)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("tenant:123#shard-3", r"give the key without its shard, as unsharded\(key\)"),
        ("", "must be text that is not empty"),
        (123, "must be text"),
        ("a\x00b", "NUL"),
        ("a\ud800b", "lone surrogate"),
        ("ü" * 255, "has 518 bytes with its shard: shorten it"),
    ],
)
def test_a_key_that_cannot_have_shards_is_refused(key: Any, why: str) -> None:
    for ask in (shard, shards):
        with pytest.raises(InvalidPayload, match=why):
            ask(key, 8)


def test_the_longest_shard_decides_whether_a_key_fits() -> None:
    longest = "k" * (KEY_BYTES_MAX - len("#shard-9"))
    assert max(len(one) for one in shards(longest, 10)) == KEY_BYTES_MAX
    for by in range(20):
        with pytest.raises(InvalidPayload, match="shorten it"):
            shard(longest, 11, by)


@pytest.mark.parametrize("by", [1.0, True, UUID(int=1), b"a", object()])
def test_an_entity_without_a_lasting_name_is_refused(by: Any) -> None:
    with pytest.raises(InvalidPayload, match=r"by=.* send its id, as str\(id\)"):
        shard("tenant:123", 4, by)


# Pace


@quick
@given(st.floats(0, 1e6), CHANCES, st.floats(0, 1))
def test_jitter_never_draws_a_wait_out(seconds: float, chance: float, spread: float) -> None:
    assert seconds * (1 - spread) <= jittered(seconds, chance, spread) <= seconds


def test_a_pace_doubles_up_to_its_most_and_begins_again_when_reset() -> None:
    pace = Pace(0.1, 1.0)
    assert [pace.next(0) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    pace.reset()
    assert pace.next(0) == 0.1


@quick
@given(st.lists(CHANCES, min_size=1, max_size=50))
def test_a_pace_never_waits_longer_than_promised_nor_spins(chances: list[float]) -> None:
    pace = Pace()
    waits = [pace.next(chance) for chance in chances]
    assert all(0.05 <= wait <= 3.0 for wait in waits), (
        "a worker is back five seconds after its server: it also has to claim"
    )
    assert all(wait >= 1.5 for wait in waits[5:])


@pytest.mark.parametrize(("first", "most"), [(0, 5), (-1, 5), (6, 5), (math.nan, 5), (1, math.nan), (1, math.inf)])
def test_a_pace_that_could_spin_or_never_end_is_refused(first: float, most: float) -> None:
    with pytest.raises(BadSettings, match=r"first_seconds=.* must be above 0 and not above most_seconds="):
        Pace(first, most)
