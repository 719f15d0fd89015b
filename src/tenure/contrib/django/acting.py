"""What the pages of the admin ask and do; actions have a connection of their own."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from ... import operate
from ...errors import BadSettings, telling_line
from ...model.filter import Filter
from ...postgres import connect, run
from ...verbs import questions
from ...verbs import queues as of_queues
from ...verbs.statement import Statement
from . import conf

T = TypeVar("T")
LINE_MAX = 120
TURNS = {"pause": of_queues.pause, "resume": of_queues.resume}


class QueueLine(NamedTuple):
    """A queue for its line on the page."""

    name: str
    paused: bool
    counts: list[str]  # by status, in the order of STATUSES
    limits: str


STATUSES = ("pending", "scheduled", "processing", "failed", "dead_letter")


def asked(statement: Statement[T]) -> T:
    """The answer to a question, on Django's connection."""
    return run(conf.raw(conf.alias()), statement, conf.schema())


def act(verb: str, filter: Filter, who: str, reason: str) -> operate.Done:
    """Do this to these rows, in batches, with a line in the audit that names the person."""
    with connect(conf.address(conf.alias()), application_name="tenure django admin") as conn:
        return operate.act(conn, verb, filter, operate.Actor(who, "django"), schema=conf.schema(), reason=reason)


def turn(queue: str, do: str, who: str) -> str:
    """Pause or resume a queue, with its line in the audit; a sentence that says what was done."""
    if do not in TURNS or not queue:
        raise BadSettings(f"{do!r} cannot be done to a queue here: choose pause or resume")
    with connect(conf.address(conf.alias()), application_name="tenure django admin") as conn:
        changed = operate.noted(conn, TURNS[do](queue), operate.Actor(who, "django"), do, queue, conf.schema())
    past = "paused" if do == "pause" else "resumed"
    return f"queue {queue!r} {past}" if changed else f"queue {queue!r} was {past} already"


def queues() -> list[QueueLine]:
    """Every queue that has rows, or for which somebody has set something."""
    settings = {each.queue: each for each in asked(of_queues.queues())}
    counts: dict[str, dict[str, str]] = {name: {} for name in settings}
    for depth in asked(questions.queue_depths()):
        counts.setdefault(depth.queue, {})[depth.status] = f"{depth.rows}{'+' if depth.more else ''}"
    return [
        QueueLine(
            name,
            name in settings and settings[name].paused,
            [found.get(status, "0") for status in STATUSES],
            _limits(settings.get(name)),
        )
        for name, found in sorted(counts.items())
    ]


def _limits(queue: of_queues.Queue | None) -> str:
    if queue is None:
        return ""
    told: list[Any] = [
        queue.max_running is not None and f"{queue.max_running} at once",
        queue.max_per_key and f"{queue.max_per_key} for each key",
        queue.rate_per_second and f"{queue.rate_per_second:g} a second",
    ]
    return ", ".join(each for each in told if each)


def line_of(error: str | None) -> str:
    """The line of an error that tells most, cut to fit."""
    line = telling_line(error) if error else ""
    return line if len(line) <= LINE_MAX else f"{line[: LINE_MAX - 1]}…"
