"""One table of a run: medians with their spread, ratios with their bars, kept as JSON as well."""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

import tenure

from .cpu import Taken

_SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size", "checkpoint_timeout")
WIDTH = 58


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure must reach: at least, or at most, so much."""

    bound: float
    least: bool = True

    def holds(self, figure: float) -> bool:
        """Whether the figure is on the right side of it."""
        return figure >= self.bound if self.least else figure <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.least else '≤'} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of the table: the median of its turns, the smallest and the largest, and whether its bar holds."""

    section: str
    name: str
    median: float
    low: float
    high: float
    ratio: bool = False
    bar: str = ""
    held: bool | None = None
    client: float | None = None  # µs of processor time, where it was measured
    server: float | None = None

    def __str__(self) -> str:
        verdict = {True: "ok", False: "MISSED", None: ""}[self.held]
        spread = f"{_figure(self.low, self.ratio)} – {_figure(self.high, self.ratio)}"
        cost = "" if not self.client else f"{_figure(self.client):>8} + {_figure(self.server or 0.0)}"
        middle = _figure(self.median, self.ratio)
        return f"  {self.name:<{WIDTH}} {middle:>9}   {spread:<19}{cost:<19}{self.bar:>6}  {verdict}".rstrip()


@dataclass(slots=True)
class Report:
    """The lines of a run, printed as they come."""

    about: dict[str, str]
    quiet: bool = False
    lines: list[Line] = field(default_factory=list)
    _section: str = ""

    def begin(self, section: str) -> None:
        """A heading."""
        self._section = section
        self._say(f"\n{section:<{WIDTH + 2}} {'median':>9}   {'spread':<19}{'  µs, client + server':<23}bar")

    def rate(self, name: str, figures: Sequence[float]) -> None:
        """What was measured, as it is: it depends on the machine and is not judged."""
        self._add(name, figures)

    def turns(self, name: str, taken: Sequence[Taken]) -> None:
        """The same with what each thing cost, client and server."""
        client, server = (statistics.median(getattr(each, side) for each in taken) for side in ("client", "server"))
        self._add(name, [each.rate for each in taken], client=client, server=server)

    def judged(self, name: str, figures: Sequence[float], bar: Bar | None) -> None:
        """A figure with its bar, in units of its own."""
        self._add(name, figures, bar=bar)

    def ratio(self, name: str, ours: Sequence[float], theirs: Sequence[float], bar: Bar) -> None:
        """Ours by theirs, turn by turn: what hits the machine hits both."""
        self._add(name, [one / other for one, other in zip(ours, theirs, strict=True)], ratio=True, bar=bar)

    def say(self, text: str) -> None:
        """A remark under the section."""
        self._say(f"  {text}")

    def _add(
        self, name: str, figures: Sequence[float], *, ratio: bool = False, bar: Bar | None = None, **cost: float
    ) -> None:
        middle = statistics.median(figures)
        held, bound = (None, "") if bar is None else (bar.holds(middle), str(bar))
        line = Line(self._section, name, middle, min(figures), max(figures), ratio, bound, held, **cost)
        self.lines.append(line)
        self._say(str(line))

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(text, flush=True)

    @property
    def missed(self) -> list[Line]:
        """The lines whose bar does not hold."""
        return [line for line in self.lines if line.held is False]

    def keep(self, path: str | None, name: str, **more: Any) -> Path:
        """Write all of it as JSON, to this file or to one in a new folder, which no other user can have made."""
        file = Path(path) if path else Path(tempfile.mkdtemp(prefix="tenure-bench-")) / f"{name}.json"
        content = {"about": self.about, "lines": [asdict(line) for line in self.lines], **more}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=1) + "\n")
        return file

    def verdict(self, file: Path) -> int:
        """The last lines, and the exit code."""
        judged = sum(line.held is not None for line in self.lines)
        print(f"\n{judged - len(self.missed)} of {judged} bars hold; kept in {file}")
        if float(self.about["load"]) > (os.cpu_count() or 1) / 2:
            print("  others were at work here when it began: only processor times mean something then")
        for line in self.missed:
            print(f"  missed: {line.section}: {line.name}: {_figure(line.median, line.ratio)} ({line.bar})")
        return 1 if self.missed else 0


def about(conn: psycopg.Connection[Any], **settings: object) -> dict[str, str]:
    """Versions and settings of this run."""
    server = {name: conn.execute(f"SHOW {name}".encode()).fetchone() for name in _SETTINGS}
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "tenure": tenure.__version__,
        "python": platform.python_version(),
        "psycopg": f"{psycopg.__version__} ({psycopg.pq.__impl__})",
        "postgres": conn.info.parameter_status("server_version") or "",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "load": f"{os.getloadavg()[0]:.1f}",
        "server": ", ".join(f"{name} {value[0]}" for name, value in server.items() if value),
        **{name: str(value) for name, value in settings.items()},
    }


def opened(conn: psycopg.Connection[Any], **settings: object) -> Report:
    """A report that begins with versions and settings."""
    report = Report(about(conn, **settings))
    for name, value in report.about.items():
        print(f"{name:<10} {value}", flush=True)
    return report


def in_turns(rounds: int, contenders: dict[str, Callable[[], Any]]) -> dict[str, list[Any]]:
    """What each contender measured in each round; they take turns, in an order that is drawn anew for each round.

    Nobody follows himself, who would find the machine as it suits him; so two of them simply alternate.
    """
    taken: dict[str, list[Any]] = {name: [] for name in contenders}
    names, drawn = list(contenders), random.Random(rounds)
    last: list[str] = []
    for _ in range(rounds):
        drawn.shuffle(names)
        while len(names) > 1 and names[:1] == last:
            drawn.shuffle(names)
        for name in names:
            taken[name].append(contenders[name]())
        last = names[-1:]
    return taken


def eager() -> bool:
    """Whether this Python starts a coroutine at once: bars are higher where it does."""
    return sys.version_info >= (3, 12)


def _figure(value: float, ratio: bool = False) -> str:
    if ratio or abs(value) < 10:
        return f"{value:.2f}"
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"
