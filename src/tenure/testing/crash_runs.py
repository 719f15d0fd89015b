"""A marked test under --tenure-crash: run once as it is, then once for each crash point that this run has found."""

from __future__ import annotations

from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from .crash_points import CRASH, Crash


def run_at_every_point(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Each run has fixtures of its own, and is reported by the name of the test and of the point."""
    hook, where = item.ihook, {"nodeid": item.nodeid, "location": item.location}
    hook.pytest_runtest_logstart(**where)
    noting = Crash()
    reports = _run(item, noting, item.parent)
    points = noting.points if all(report.passed for report in reports) else []
    item.session.testscollected += len(points)
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    for point in points:
        for report in _run(item, Crash(point), item.parent):
            file, line, name = report.location
            report.nodeid, report.location = f"{report.nodeid}[{point}]", (file, line, f"{name}[{point}]")
            hook.pytest_runtest_logreport(report=report)
    item.session._setupstate.teardown_exact(nextitem)
    hook.pytest_runtest_logfinish(**where)
    return True


def _run(item: Any, crash: Crash, nextitem: Any) -> list[pytest.TestReport]:
    """One run of the test: what it shares with its neighbours (the session's Postgres) stays for the next one."""
    item.stash[CRASH] = crash
    item._initrequest()
    reports: list[pytest.TestReport] = runtestprotocol(item, log=False, nextitem=nextitem)
    return reports
