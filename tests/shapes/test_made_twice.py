"""Shapes that are made twice for one inbox: refused by the names that their author gave."""

from __future__ import annotations

import pytest

from tenure.app.inbox import Inbox
from tenure.errors import BadSettings
from tenure.shapes.flow import Flow, Flows
from tenure.shapes.projection import Journal


def test_a_workflow_of_another_flows_of_the_inbox_is_refused_by_its_own_name() -> None:
    inbox = Inbox()
    for flows in (Flows(inbox), Flows(Inbox())):
        flows.workflow("checkout")(_nothing)
    with pytest.raises(BadSettings, match="workflow 'checkout' is in another Flows of this inbox"):
        Flows(inbox).workflow("checkout")(_nothing)


def test_a_projection_of_another_journal_of_the_inbox_is_refused_by_its_own_name() -> None:
    inbox = Inbox()
    Journal(inbox).projection("totals")(_applied)
    with pytest.raises(BadSettings, match="projection 'totals' is in another Journal of this inbox"):
        Journal(inbox).projection("totals")(_applied)


def _nothing(flow: Flow) -> None: ...


def _applied(tx: object, event: object) -> None: ...
