"""A test that is red while the machine stood still is asked again: what it waited for says nothing about the code.

A machine that is shared stands still for a second or two now and then: leases run out, and sessions are taken for lost.
A thread that only sleeps notices it. A test that is red on a machine that runs stays red.
"""

from __future__ import annotations

import threading
import time

import pytest
from _pytest.runner import runtestprotocol

STILL_SECONDS = 0.5
TICK_SECONDS = 0.05
TIMES_MAX = 3
AGAIN = "asked_again"


class Watch(threading.Thread):
    """Sleeps, and notes when it slept for much longer than it wanted."""

    def __init__(self) -> None:
        super().__init__(name="standstill", daemon=True)
        self.last = float("-inf")  # when the machine last went on

    def run(self) -> None:
        before = time.monotonic()
        while True:
            time.sleep(TICK_SECONDS)
            now = time.monotonic()
            if now - before > TICK_SECONDS + STILL_SECONDS:
                self.last = now
            before = now


class AskAgain:
    """The plugin: a red test during which the machine stood still runs again, three times at most."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._asked: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for n in range(1, TIMES_MAX + 1):
            began = time.monotonic()
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
            if n == TIMES_MAX or self._watch.last < began or not any(report.failed for report in reports):
                break
            item.user_properties.append((AGAIN, n))
            item._initrequest()  # type: ignore[attr-defined]
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown" and (times := [n for name, n in report.user_properties if name == AGAIN]):
            self._asked.append(f"{report.nodeid} ({len(times)} more)")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._asked:
            terminalreporter.section("asked again, because the machine stood still")
            terminalreporter.write_line("\n".join(self._asked))
