"""Does the rate stay as things grow? `make bench-growth`, some curves: ONLY=backlog,keys, a quick look: SCALE=0.01.

One worker with the best settings (a curve of sessions aside) drains beside what has grown, in turns with a plain loop
on a table that does not grow: a point is the rate as a share of that loop's. Of each curve the slowest point must reach
0.8 of the fastest (payload sizes aside), and the memory of a worker at the start 0.8 of that at the end: exit 1 when
not.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tenure import postgres
from tenure.postgres import migrate

from ..plots import Curve as Drawn
from ..plots import curves as draw
from ..report import Bar, Report, opened
from ..server import bench_server
from .curves import CURVES, Curve, Run, told_memory
from .ground import Point

FLAT = Bar(0.8)


def main() -> int:
    """The curves that were asked for, in turn."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--only", default=",".join(CURVES), help=f"curves, of {', '.join(CURVES)}")
    parser.add_argument("--scale", type=float, default=1.0, help="of all counts of rows and jobs")
    parser.add_argument("--hold-seconds", type=float, default=600.0, help="how long the snapshot is held")
    parser.add_argument("--json", help="the file to keep the figures in (default: in the system's temporary folder)")
    parser.add_argument("--plots", help="a folder to draw the curves in, as SVG")
    given = parser.parse_args()
    names = given.only.split(",")
    assert set(names) <= CURVES.keys(), f"--only {given.only}: choose from {', '.join(CURVES)}"
    kept: dict[str, list[Point]] = {}
    with bench_server() as url, postgres.connect(url, application_name="tenure bench") as conn:
        migrate.apply(conn)
        command = f"make bench-growth ONLY={given.only} SCALE={given.scale:g} HOLD_SECONDS={given.hold_seconds:g}"
        report = opened(conn, scale=given.scale, hold_seconds=given.hold_seconds, command=command)
        run = Run(url, conn, given.scale, given.hold_seconds)
        for name in names:
            kept[name] = measured(report, name, CURVES[name], run)
            if given.plots:
                drawn(given.plots, name, report, kept[name])
    if told_memory:
        report.begin("memory of a worker, MB")
        report.rate("after a tenth", [told_memory[0][1]])
        report.rate("at the end", [told_memory[-1][1]])
        report.ratio("after a tenth / at the end", [told_memory[0][1]], [told_memory[-1][1]], FLAT)
    points = {name: [asdict(point) for point in curve] for name, curve in kept.items()}
    return report.verdict(report.keep(given.json, "growth", curves=points))


def measured(report: Report, name: str, curve: Curve, run: Run) -> list[Point]:
    """One curve, point by point, and whether it is flat."""
    report.begin(f"{name}: jobs/s")
    points, began = [], time.monotonic()
    for point in curve.points(run):
        points.append(point)
        share = f", {point.of_plain:.2f} of the plain loop" if point.plain else ""
        report.turns(f"{point.x:,.0f} {curve.x}{share}", point.turns)
    report.say(f"{time.monotonic() - began:.0f} s")
    if curve.judged:
        rates = [level(point) for point in points]
        judged = rates[rates.index(max(rates)) :] if curve.from_the_top else rates
        report.ratio("slowest / fastest", [min(judged)], [max(judged) or 1.0], FLAT)
    return points


def level(point: Point) -> float:
    """Where it stands: by the plain loop, where that ran."""
    return point.of_plain if point.plain else point.rate


def drawn(folder: str, name: str, report: Report, points: list[Point]) -> None:
    """Its picture, with the command for this one."""
    beside = CURVES[name].judged and all(point.plain for point in points)
    flat: dict[str, Drawn] = {name: [(point.x, point.of_plain if beside else point.rate) for point in points]}
    about = {**report.about, "command": re.sub(r"ONLY=\S+", f"ONLY={name}", report.about["command"])}
    x, y = CURVES[name].x, "of the plain loop" if beside else "jobs/s"
    title = f"Rate as a share of the plain loop's: {x}" if beside else f"Jobs a second: {x}"
    draw(Path(folder) / f"growth-{name}.svg", title, about, flat, x=x, y=y)


if __name__ == "__main__":
    sys.exit(main())
