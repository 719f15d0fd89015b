"""Celery's options in our words: each is mapped, is so anyway, or is refused in one sentence that says what to use."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..errors import BadSettings

RETRIES = 3  # Celery's own default
RETRY_SECONDS = 180.0

# What holds here whatever is said, if this is the value: rows are settled after their handler, and found by their id.
SO_ANYWAY = {"acks_late": True, "reject_on_worker_lost": True, "track_started": True, "serializer": "json"}
INSTEAD = {
    "acks_late": "a row is always settled after its handler has returned",
    "reject_on_worker_lost": "a row whose worker is lost is always tried again",
    "serializer": "arguments are JSON",
    "rate_limit": "limits belong to queues and hold for all workers: `tenure queues limit QUEUE --rate 10`",
    "soft_time_limit": "use time_limit, and job.check() in a handler",
    "expires": "rows do not expire: return at once in the handler if it is too late",
    "link": "use a batch with then=…, or a workflow",
    "link_error": "watch dead letters: `tenure dead`, or an alert",
    "chord": "use a batch with then=…",
    "task_id": "the database makes ids: use idempotency_key=… to send something once",
    "base": "write a function: what a base class does belongs to @inbox.lifespan or to the function",
    "pydantic": "annotate a handler, @inbox.handler(…, payload=Model)",
    "exchange": "rows go to a queue: queue=…",
    "routing_key": "rows go to a queue: queue=…",
    "headers": "use handler.using(headers=…)",
    "shadow": "the kind is the name",
    "compression": "Postgres compresses large payloads by itself",
    "retry": "a row is sent in a transaction: it is there or not",
    "retry_policy": "a row is sent in a transaction: it is there or not",
    "throws": "an exception that is not in autoretry_for fails the row",
}
DECLARED = (
    *("name", "bind", "queue", "priority", "max_retries", "default_retry_delay", "time_limit", "ignore_result"),
    *("autoretry_for", "dont_autoretry_for", "retry_backoff", "retry_backoff_max", "retry_jitter", "retry_kwargs"),
)
SENT = ("countdown", "eta", "queue", "priority", "key", "idempotency_key")


def check(options: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    """BadSettings for the first option that has no meaning here, with what to use instead."""
    for name, value in options.items():
        if name in known or value is None or (name in SO_ANYWAY and value == SO_ANYWAY[name]):
            continue
        if name in DECLARED:
            raise BadSettings(f"{where} has {name}={value!r}: say it once, in the decorator")
        if name not in INSTEAD:
            raise BadSettings(f"{where} has the unknown option {name!r}: choose from {', '.join(known)}")
        raise BadSettings(f"{where} has {name}={value!r}, which Tenure does not map: {INSTEAD[name]}")


def sent_with(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The options of apply_async as those of a row."""
    check(options, SENT, where)
    given = {name: value for name, value in options.items() if name in SENT and value is not None}
    countdown, eta = given.pop("countdown", None), given.pop("eta", None)
    if countdown is not None and eta is not None:
        raise BadSettings(f"{where} has countdown={countdown!r} and eta={eta!r}: give one of them")
    if countdown is not None:
        given["delay_seconds"] = max(0.0, float(countdown))
    if eta is not None:
        given["at"] = aware(eta, where)
    return given


def aware(eta: Any, where: str) -> datetime:
    """A time with its zone; one without is UTC, as Celery takes it."""
    if not isinstance(eta, datetime):
        raise BadSettings(f"{where} has eta={eta!r}: it must be a datetime")
    return eta if eta.tzinfo else eta.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Retries:
    """When a function is tried again, as its decorator said it."""

    autoretry_for: tuple[type[BaseException], ...] = ()
    dont_autoretry_for: tuple[type[BaseException], ...] = ()
    most: int = RETRIES
    seconds: float = RETRY_SECONDS
    backoff: float = 0.0
    backoff_max: int = 600
    jitter: bool = True

    @classmethod
    def read(cls, options: Mapping[str, Any], where: str) -> Retries:
        """From the options of a decorator."""
        more = options.get("retry_kwargs") or {}
        most = more.get("max_retries", options.get("max_retries", RETRIES))
        if most is None or not isinstance(most, int) or most < 0:
            raise BadSettings(f"{where} has max_retries={most!r}: give a whole number, attempts have an end here")
        return cls(
            tuple(options.get("autoretry_for", ())),
            tuple(options.get("dont_autoretry_for", ())),
            most,
            float(more.get("countdown", options.get("default_retry_delay", RETRY_SECONDS))),
            float(options.get("retry_backoff", False)),
            int(options.get("retry_backoff_max", 600)),
            bool(options.get("retry_jitter", True)),
        )

    def again(self, error: BaseException) -> bool:
        """Whether this error is one to try again for."""
        return isinstance(error, self.autoretry_for) and not isinstance(error, self.dont_autoretry_for)

    def after(self, retries: int) -> float:
        """Seconds until the next attempt, after so many retries."""
        if not self.backoff:
            return self.seconds
        wait = min(self.backoff_max, int(max(1.0, self.backoff)) * 2 ** min(retries, 40))
        return float(random.randrange(wait + 1) if self.jitter else wait)  # noqa: S311
