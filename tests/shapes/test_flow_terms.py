"""Versions and deadlines of workflows: what the database would refuse at the first start is refused where it stands."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.app.inbox import Inbox
from tenure.errors import BadSettings
from tenure.shapes.flow import Flow, Flows
from world import World

pytestmark = pytest.mark.one_server


@pytest.mark.parametrize("version", [2_100_000_000, -2_100_000_000, 2**70, 1.0, "2", True, None])
def test_a_version_that_no_row_could_carry_is_refused_where_it_is_written(version: Any) -> None:
    flows = Flows(Inbox())
    with pytest.raises(BadSettings, match=f"'checkout' has version={version!r}: it must be a whole number up to"):
        flows.workflow("checkout", version=version)


@pytest.mark.parametrize("version", [2_099_999_999, -2_099_999_999, 0])
def test_every_other_version_starts(world: World, version: int) -> None:
    made = Flows(Inbox(schema=world.schema)).workflow("checkout", version=version)(_nothing)
    assert world.sql("SELECT headers ->> 'tenure-version' FROM live WHERE id = %s", made.start(world.conn).id) == [
        (str(version),)
    ]


@pytest.mark.parametrize("seconds", [1e9, 1e-5, 0, -1.0, float("nan"), float("inf"), 10**20, True, "3600"])
def test_a_deadline_that_no_row_could_carry_is_refused_where_it_is_written(seconds: Any) -> None:
    flows = Flows(Inbox())
    said = rf"'checkout' has deadline_seconds={seconds!r}: it must be a number of seconds from 0.001 to 999,999,999, or"
    with pytest.raises(BadSettings, match=said):
        flows.workflow("checkout", deadline_seconds=seconds)


@pytest.mark.parametrize("seconds", [0.001, 0.1 + 0.2, 1 / 3, 3600, 2_592_001, 123_456_789.125, 999_999_999])
def test_every_other_deadline_is_kept_to_the_millisecond(world: World, seconds: float) -> None:
    """It was rounded to six digits: 123,456,789 s were 211 s more."""
    made = Flows(Inbox(schema=world.schema)).workflow("checkout", deadline_seconds=seconds)(_nothing)
    ((kept,),) = world.sql("SELECT headers ->> 'tenure-deadline' FROM live WHERE id = %s", made.start(world.conn).id)
    assert float(kept) == pytest.approx(seconds, abs=0.0005)


def _nothing(flow: Flow) -> None: ...
