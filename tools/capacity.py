"""What would so many inboxes carry? Arithmetic on paper, from what `make bench` has measured.

    make bench JSON=bench.json
    python tools/capacity.py bench.json --cores 16 --inboxes 1 4 64

A job costs processor time on the server and in a worker, and bytes of the server's log. Of the rates that the
processor, the log and the network allow, the lowest is what one inbox carries. Inboxes share nothing, so N of them
carry N times as much. A bench with a load, or on another machine, says little of yours: run it there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENQUEUE = {
    "one": ("one enqueue a transaction", "tenure"),
    "bulk": ("bulk", "tenure, enqueue_many"),
}
DRAIN = ("drain", "1 process, best settings")
LOG = "log of the server"
OWN_CONNECTIONS = 4  # of a worker that has no fenced handlers
SECONDS_A_DAY = 86_400
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one job: µs of processor time, bytes of the server's log."""

    enqueue: float
    finish: float
    worker: float
    log: float


@dataclass(frozen=True, slots=True)
class Machine:
    """What one inbox has."""

    cores: int
    busy: float  # part of the processor that may be in use
    log: float  # bytes a second
    network: float
    standbys: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Read, reckon, print; 2 if the file is not what a bench keeps."""
    given = _options().parse_args(arguments)
    try:
        kept = json.loads(Path(given.bench).read_text(encoding="utf-8"))
        if not (isinstance(kept, dict) and {"about", "lines"} <= kept.keys()):
            raise ValueError("it is not what a bench keeps")
        cost = cost_of(kept["lines"], given.enqueue, given.payload)
    except (OSError, ValueError) as error:
        print(f"{given.bench}: {error}. Make it anew: make bench JSON={given.bench}", file=sys.stderr)
        return 2
    machine = Machine(given.cores, given.busy, given.log_mb * MB, given.network_mb * MB, given.standbys)
    bounds = bounds_of(cost, machine)
    _tell_cost(kept["about"], cost, given)
    _tell_bounds(bounds, machine)
    _tell_inboxes(given.inboxes, min(bounds.values()), cost, machine)
    _tell_door(given, cost, machine)
    return 0


def cost_of(lines: Sequence[dict[str, Any]], enqueue: str, payload: int) -> Cost:
    """From the lines of a bench. A line that it lacks is named."""
    sent, done = _line(lines, *ENQUEUE[enqueue]), _line(lines, *DRAIN)
    if not (sent["server"] and done["server"]):
        raise ValueError("the server's processor time was not measured (a server on another machine)")
    steps = (f"{step}, payload of {payload:,} bytes" for step in ("enqueue", "claim", "completion"))
    log = sum(_line(lines, LOG, step)["median"] for step in steps)
    return Cost(sent["server"], done["server"], done["client"], log)


def bounds_of(cost: Cost, machine: Machine) -> dict[str, float]:
    """Jobs a second that each part of one inbox's machine allows."""
    bounds = {
        "processor": machine.cores * machine.busy * 1e6 / (cost.enqueue + cost.finish),
        "log": machine.log / cost.log,
    }
    if machine.standbys:
        bounds["network to standbys"] = machine.network / (cost.log * machine.standbys)
    return bounds


def _line(lines: Sequence[dict[str, Any]], section: str, name: str) -> dict[str, Any]:
    for line in lines:
        if line["section"].startswith(section) and line["name"] == name:
            return line
    raise ValueError(f"no line {name!r} under {section!r}")


def _tell_cost(about: dict[str, str], cost: Cost, given: argparse.Namespace) -> None:
    print(f"measured by {about['command']} at {about['at']}, load {about['load']}")
    print(f"  PostgreSQL {about['postgres']}, Python {about['python']}, {about['machine']}")
    print("\na job costs")
    print(f"  server   {cost.enqueue:,.0f} µs to enqueue ({given.enqueue}), {cost.finish:,.0f} to claim and complete")
    print(f"  worker   {cost.worker:,.0f} µs and the handler")
    print(f"  log      {cost.log:,.0f} bytes (payload of {given.payload:,}; page images come on top)")


def _tell_bounds(bounds: dict[str, float], machine: Machine) -> None:
    print(f"\none inbox on {machine.cores} cores, {machine.busy:.0%} of them busy")
    narrowest = min(bounds, key=lambda name: bounds[name])
    for name, rate in bounds.items():
        print(f"  {name:<20} {rate:>14,.0f} jobs/s{'   <- the narrowest' if name == narrowest else ''}")


def _tell_inboxes(inboxes: Sequence[int], rate: float, cost: Cost, machine: Machine) -> None:
    print(f"\n{'inboxes':>7} {'jobs/s':>14} {'jobs a day':>20} {'workers':>9}", end="")
    print(f" {'connections each':>17} {'log MB/s each':>14}")
    workers = rate * cost.worker / 1e6 / machine.busy
    for n in inboxes:
        connections = max(1, round(workers)) * OWN_CONNECTIONS
        day = n * rate * SECONDS_A_DAY
        print(f"{n:>7,} {n * rate:>14,.0f} {day:>20,.0f} {max(1, round(n * workers)):>9,}", end="")
        print(f" {connections:>17,} {rate * cost.log / MB:>14,.1f}")
    print("  workers: processes of one core each, for the worker's own time; handlers come on top")


def _tell_door(given: argparse.Namespace, cost: Cost, machine: Machine) -> None:
    if given.door_us is None:
        return
    through = machine.cores * machine.busy * 1e6 / given.door_us
    with_door = machine.cores * machine.busy * 1e6 / (cost.enqueue + cost.finish + given.door_us)
    print(f"\nthrough a door that costs {given.door_us:,.0f} µs a call")
    print(f"  all producers at one coordinator: {through:,.0f} jobs/s, however many nodes there are")
    print(f"  producers at any node:            {with_door:,.0f} jobs/s a node, and grows with the nodes")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", help="the file that `make bench JSON=file` has kept")
    parser.add_argument("--cores", type=_above_zero, default=16, help="of the server of one inbox (16)")
    parser.add_argument("--busy", type=_part, default=0.6, help="part of the processor that may be in use (0.6)")
    parser.add_argument("--log-mb", type=_above_zero, default=200, help="what its disk takes as log, MB/s (200)")
    parser.add_argument("--network-mb", type=_above_zero, default=1_000, help="what its network takes, MB/s (1000)")
    parser.add_argument("--standbys", type=int, default=1, help="servers that follow each inbox (1)")
    parser.add_argument("--enqueue", choices=ENQUEUE, default="one", help="one row a transaction, or in bulk (one)")
    parser.add_argument("--payload", type=int, choices=(100, 1000), default=100, help="bytes (100)")
    parser.add_argument("--inboxes", type=_above_zero, nargs="+", default=[1, 4, 16, 64, 256], help="how many")
    parser.add_argument("--door-us", type=_above_zero, help="µs that a node spends to pass an enqueue on to another")
    return parser


def _above_zero(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a whole number from 1 on")
    return int(text)


def _part(text: str) -> float:
    try:
        part = float(text)
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise argparse.ArgumentTypeError(f"{text}: give a part between 0 and 1, as 0.6")
    return part


if __name__ == "__main__":
    raise SystemExit(main())
