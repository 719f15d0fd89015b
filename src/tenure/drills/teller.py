"""How a drill is printed: aligned lines for people, one JSON object a line for programs."""

from __future__ import annotations

import json
from typing import Any, Protocol

from ..console.terminal import echo, mark, styled
from .stage.said import Said
from .stage.scene import Event, Scene
from .stage.verdict import Check, Verdict

# Fields that only programs need: shown in another column, the same in every line, or a time.
_HIDDEN = ("worker", "job_id", "kind", "queue", "queues", "wait_seconds", "run_seconds", "error_class", "role")
_LOUD = {"stale_write_blocked": "yellow", "lease_lost": "yellow", "ledger_written": "green"}

# Events that people need not see: routine work, the ring, and every row where there are many.
_CLOCKWORK = frozenset({"woken", "chore_done", "lease_renewed", "wakeup_changed"})
_RING = frozenset({"ring_changed"})
_OF_JOBS = ("enqueued", "lease_acquired", "execution_started", "job_completed")
_OF_EACH = frozenset((*_OF_JOBS, "mail_sent", "mail_already_sent", "ledger_written"))

# Events in words: the event, then its fields.
_WORDS = {
    "schema_made": ("schema made", "{schema}"),
    "schema_removed": ("schema removed", "{schema}"),
    "schema_left": ("schema left behind", "remove it with: {remedy}"),
    "worker_hired": ("{worker} hired", "pid {pid}"),
    "worker_paused": ("{worker} paused", "SIGSTOP to pid {pid}"),
    "worker_resumed": ("{worker} resumed", "SIGCONT to pid {pid}"),
    "worker_killed": ("{worker} killed", "SIGKILL to pid {pid}"),
    "worker_asked_to_drain": ("{worker} drains", "SIGTERM to pid {pid}"),
    "worker_gone": ("{worker} ended", "exit code {exit_code}"),
    "worker_seen": ("worker_seen", "{other} is {seen}"),
    "worker_draining": ("draining", "{held} rows held"),
    "backoff_skipped": ("backoff skipped", "{seconds:g} s of waiting that this drill does not need"),
    "enqueue_deduplicated": ("known already", "key={key}"),
    "orders_taken": ("{rows} orders taken", "{first} to {last}"),
    "buckets_moved": ("buckets moved", "{to_newcomer} of {of} to worker-D, {between_others} between the others"),
    "order_rolled_back": ("rolled back", "order={order}"),
    "database_cut": ("line cut", "workers cannot reach the database"),
    "database_healed": ("line healed", ""),
    "database_unreachable": ("database away", "{line} ({error_class})"),
    "database_back": ("database back", "{line}, after {away_seconds:.1f} s"),
    "poison_cured": ("catalogue repaired", ""),
    "event_appended": ("appended", "order={order} position={position}, not committed"),
    "event_committed": ("committed", ""),
    "events_read": ("read", "positions {positions}, up to {upto}"),
    "event_published": ("published", "order={order}"),
    "event_sent": ("event sent", "the broker says: {answer}"),
    "broker_started": ("broker started", "NATS, pid {pid}"),
    "card_charged": ("card charged", "order={order}"),
    "card_refunded": ("card refunded", "order={order}, the charge was {charge}"),
    "parcel_scanned": ("parcel scanned", "order={order} signal: {signal}"),
    "order_cancelled": ("order cancelled", "order={order}"),
    "stream_read": ("stream read", "events={events}"),
    "standby_joined": ("standby follows", "{how}"),
    "standby_stalled": ("standby cut off", "SIGSTOP to what sends to it"),
    "primary_killed": ("primary killed", "SIGKILL to pid {pid} and its children"),
    "standby_promoted": ("standby promoted", "{seconds:.2f} s after the kill"),
    "failover_judged": (
        "judged",
        "{lost} of {acknowledged} lost, gap {gap_seconds:.2f} s, workers back in {back_seconds:.2f} s, epoch {epoch}",
    ),
    "seen": ("seen", "{words}"),
}
_WIDTH = 100  # of the fields of a line, and of two assertions side by side


class Teller(Protocol):
    """Something that prints a drill."""

    def event(self, said: Said) -> None:
        """Print one event as it happens."""

    def verdict(self, verdict: Verdict) -> None:
        """Print the verdict."""


class Json:
    """For programs: every line is an object with at, who and event; the last one is the verdict."""

    def event(self, said: Said) -> None:
        """One line."""
        echo(json.dumps({"at": round(said.at, 3), "who": said.who, "event": said.event, **said.fields}))

    def verdict(self, verdict: Verdict) -> None:
        """The last line."""
        echo(json.dumps({"at": round(verdict.seconds, 3), "who": "drill", "event": "verdict", **verdict.fields()}))


class Plain:
    """For people: each step's caption with its events below, and at the end the assertions, two a line."""

    def __init__(self, scene: Scene | None = None, *, verbose: bool = False) -> None:
        self._spared = frozenset() if verbose else _spared(scene)

    def event(self, said: Said) -> None:
        """A caption, or one line in columns."""
        if said.event == "step":
            echo()
            echo(styled(f"  {said.fields['step']}  {said.fields['caption']}", bold=True))
        elif said.event not in self._spared:
            echo(_line(said))

    def verdict(self, verdict: Verdict) -> None:
        """The assertions, or why there are none."""
        echo()
        if verdict.trouble:
            echo(f"   {mark(False)} {verdict.trouble}")
        left = max((len(check.sentence) for check in verdict.checks[::2]), default=0)
        right = max((len(check.sentence) for check in verdict.checks[1::2]), default=0)
        columns = 2 if left + right < _WIDTH else 1
        for n in range(0, len(verdict.checks), columns):
            echo("   " + "      ".join(_assertion(check, left) for check in verdict.checks[n : n + columns]).rstrip())


def _assertion(check: Check, width: int) -> str:
    return f"{mark(check.ok)} {check.sentence:<{width}}"


def _spared(scene: Scene | None) -> frozenset[str]:
    """Events of this scene that people need not see; the ring is shown if a step waits for it."""
    rows = _OF_EACH if scene and scene.crowd else frozenset({"orders_taken"})
    awaited = {each.name for step in (scene.steps if scene else ()) for each in step.expect if isinstance(each, Event)}
    return _CLOCKWORK | rows | (_RING - awaited)


def _line(said: Said) -> str:
    name, fields = _in_words(said)
    loud = said.event in _LOUD
    before = styled(f"{said.at:6.3f}s  {said.who:<8}", dim=True)
    event = styled(f"{name:<19}", fg=_LOUD.get(said.event), bold=loud or None)
    return f"  {before}  {event}  {fields if loud or not fields else styled(fields, dim=True)}".rstrip()


def _in_words(said: Said) -> tuple[str, str]:
    if said.event in _WORDS:
        name, fields = _WORDS[said.event]
        return name.format(**said.fields), _short(fields.format(**said.fields))
    shown = {key: value for key, value in said.fields.items() if key not in _HIDDEN and value not in ("", 0)}
    if "key" in shown:
        shown.pop("order", None)  # the key names it
    return said.event, " ".join(f"{key}={_value(value)}" for key, value in shown.items())


def _value(value: Any) -> str:
    """The last line of a traceback."""
    return "none" if value is None else _short(str(value).strip().rpartition("\n")[2])


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
