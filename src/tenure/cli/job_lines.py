"""Each job as a line for the person at the terminal: how it ended, after how long, and the traceback of a failure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from ..console.terminal import echo, mark, styled
from ..events import Event, JobCancelled, JobCompleted, JobDeadLettered, JobFailed, JobReleased, JobRetried, Subscriber

ENDS: dict[type[Event], str] = {
    JobCancelled: "cancelled",
    JobDeadLettered: "is a dead letter now",
    JobFailed: "failed for good",
    JobReleased: "given back, at no cost",
    JobRetried: "failed, is tried again",
}
BARE = ("cancelled", "deadletter", "fail", "release", "retry", "snooze")  # an outcome without a word: the end says it
INDENT = "    "
OURS = f'  File "{Path(__file__).parents[1]}{os.sep}'


class JobLines:
    """A subscriber: the ends of jobs are lines of its own, and what else needs attention goes to the log."""

    def __init__(self, log: Subscriber) -> None:
        self._log = log

    def __call__(self, event: Event) -> None:
        """Print one event."""
        if isinstance(event, JobCompleted):
            self._say(True, event, "")
        elif isinstance(event, JobRetried):
            self._say(None if isinstance(event, JobReleased) else False, event, ENDS[type(event)])
            lines = list(_theirs(event.error.rstrip().splitlines()))
            if lines and event.error not in BARE:
                echo("\n".join(INDENT + line for line in lines), err=True)
        elif event.level != "debug":
            self._log(event)

    def _say(self, well: bool | None, event: JobCompleted | JobRetried, end: str) -> None:
        at = styled(f"{datetime.now():%H:%M:%S}", dim=True)
        about = styled(f"{event.job_id} token {event.token}", dim=True)
        took, sign = _seconds(event.run_seconds), styled("-", dim=True) if well is None else mark(well)
        echo(f"{at} {sign} {event.kind:<24} {took:>9}  {f'{end}  ' if end else ''}{about}", err=True)


def _theirs(lines: Iterable[str]) -> Iterator[str]:
    """A traceback without the frames of Tenure, which are above every handler's."""
    ours = False
    for line in lines:
        if line.startswith('  File "'):
            ours = line.startswith(OURS)
        elif not line.startswith("    "):
            ours = False
        if not ours:
            yield line


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
