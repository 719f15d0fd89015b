"""Versions of workflows: one that the database would refuse at the first start is refused where it is written."""

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


def _nothing(flow: Flow) -> None: ...
