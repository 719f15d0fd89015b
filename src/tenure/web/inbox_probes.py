"""Probes and metrics of several inboxes: who is away is a fact among others, and nobody waits for it for long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from ..telemetry.inbox_metrics import labelled
from ..telemetry.metrics import CONTENT_TYPE
from .http_errors import Refused
from .probes import ready
from .route import Ask, Reply, Route, encoded
from .site import Site

PROBE_SECONDS = 0.7  # to a probe: who sent it waits for a second, perhaps
SILENT_SECONDS = 5.0  # how long who has not answered a probe is asked none
LEFT: set[asyncio.Future[Any]] = set()  # probes that nobody waits for any more; each ends by itself
LATE = "the database has not answered"
Asked = Callable[..., Coroutine[Any, Any, dict[str, Any]]]  # asks inboxes side by side; answers or refusals by name


async def apart(route: Route, ask: Ask[Any, Any], asked: Asked, answer_seconds: float) -> Response:
    """A probe of each that is not known to be silent; metrics then come from those that answered it."""
    sites = dict(ask.site.inboxes)
    answers = await _probed(ask, sites, asked)
    if route.path != "/metrics":
        return _ready(answers)
    away = {name: Refused(503, _why(each)) for name, each in answers.items() if isinstance(each, Refused | Response)}
    there = {name: site for name, site in sites.items() if name not in away}
    found = {**away, **await asked(route.run, ask, there, answer_seconds)}
    return _metrics({name: found[name] for name in sites})


async def _probed(ask: Ask[Any, Any], sites: Mapping[str, Site], asked: Asked) -> dict[str, Any]:
    """What each says to a probe; who was silent is not asked again so soon, unless all were."""
    now = time.monotonic()
    silent = [name for name, site in sites.items() if site.store.silent_until > now]
    others = {name: site for name, site in sites.items() if name not in silent or len(silent) == len(sites)}
    probes = {name: asyncio.ensure_future(asked(ready, ask, {name: site})) for name, site in others.items()}
    await asyncio.wait(probes.values(), timeout=PROBE_SECONDS)
    answers: dict[str, Any] = dict.fromkeys(sites, Refused(503, f"{LATE} a moment ago: try again"))
    for name, probe in probes.items():
        if probe.done():
            answers |= probe.result()
        else:  # not cancelled: psycopg would wait for the silent server to hear of it
            LEFT.add(probe)
            probe.add_done_callback(LEFT.discard)
            others[name].store.silent_until = time.monotonic() + SILENT_SECONDS
            answers[name] = Refused(503, f"{LATE} within {PROBE_SECONDS} s: try again")
    return answers


def _metrics(answers: Mapping[str, Any]) -> Response:
    if all(isinstance(each, Refused) for each in answers.values()):
        raise next(iter(answers.values()))
    texts = {name: None if isinstance(each, Refused) else each.body.decode() for name, each in answers.items()}
    return Response(labelled(texts), headers={"cache-control": "no-store", "content-type": CONTENT_TYPE})


def _ready(answers: Mapping[str, Any]) -> Response:
    well = {name: each for name, each in answers.items() if not isinstance(each, Response | Refused)}
    inboxes = {
        name: {"answers": True} if name in well else {"answers": False, "error": _why(each)}
        for name, each in answers.items()
    }
    if not well:
        return encoded(Reply(503, {"status": "not ready", "error": "no inbox answers", "inboxes": inboxes}))
    return encoded(Reply(200, {**msgspec.to_builtins(next(iter(well.values()))), "inboxes": inboxes}))


def _why(answer: Any) -> str:
    return str(answer) if isinstance(answer, Refused) else str(msgspec.json.decode(answer.body).get("error", ""))
