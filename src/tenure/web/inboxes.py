"""Several inboxes over HTTP: a question goes to all of them side by side, and their answers are one.

`?inbox=NAME` asks one. An inbox that is away is named in `inboxes` of the answer, and keeps no other answer back.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response

from ..events import Bus
from ..model.merged import merged
from ..postgres.connection import NoAnswer, soon_given_up
from . import overview
from .feed import Feed
from .http_errors import Refused, refusal
from .inbox_probes import apart
from .route import Ask, Reply, Route
from .site import Site
from .store import Store

ANSWER_SECONDS = 12  # to a question; a change that was begun is waited for
# What is about this server, or about whoever asks; and streams, which each have one inbox.
OURS = ("/api/me", "/api/login", "/api/logout", "/api/openapi.json", "/health/live", "/api/events", "/api/drills")
STAGE = "/api/stage"
APART = ("/health", "/health/ready", "/metrics")
# What is there in one inbox only, and why.
OF_ONE = {
    "/api/ring": "each inbox has a ring of its own",
    "/api/rows/export": "an export has the rows of one inbox",
    "/api/flows/{id}/said": "this is a stream of one inbox",
    "/api/actions/{action}": "each inbox numbers its actions by itself",
    "/api/batches/{batch}": "each inbox numbers its batches by itself",
}
NUMBERED = ("/api/audit", "/api/batches")  # lists that go on before a number
Run = Callable[[Ask[Any, Any]], Awaitable[Any]]


def with_inboxes(first: Site, shards: Mapping[str, str]) -> Site:
    """The site of several inboxes: who comes in, and with what token, the first of them says."""
    stores = {name: _store(url, first.store.schema) for name, url in shards.items()}
    sites: dict[str, Site] = {}
    store = next(iter(stores.values()))
    whole = replace(first, store=store, feed=Feed(store, partial(_tick, sites)), inboxes=sites)
    for name, each in stores.items():
        sites[name] = _one(whole, each)
    return whole


def join(whole: Site, name: str, url: str) -> None:
    """Serve one more inbox from now on; any thread may call it."""
    whole.inboxes[name] = _one(whole, _store(url, whole.store.schema))


def _store(url: str, schema: str) -> Store:
    return Store(soon_given_up(url), schema)


def _one(whole: Site, store: Store) -> Site:
    made = replace(whole, store=store, feed=Feed(store, partial(overview.tick, store)), inboxes={})
    made.__dict__.update(bus=Bus(), tokens=whole.tokens)  # a login that failed is noted once
    return made


async def _tick(sites: Mapping[str, Site]) -> Any:
    """The numbers of all that answer; the trouble of the first, if none does."""
    now = dict(sites)
    found = await asyncio.gather(*(overview.tick(each.store) for each in now.values()), return_exceptions=True)
    here = {name: _plain(each) for name, each in zip(now, found, strict=True) if not isinstance(each, BaseException)}
    if not here:
        raise next(each for each in found if isinstance(each, BaseException))
    whole = as_document(here)
    whole["inboxes"] = {name: {"answers": name in here} for name in now}
    return whole


async def run_in_all(route: Route, ask: Ask[Any, Any]) -> Any:
    """The answer of all inboxes as one; of one of them, if there is one, or one is named."""
    sites = ask.site.inboxes
    chosen = _chosen(ask)
    if not sites or route.path in OURS or STAGE in route.path:
        answer = await route.run(_at(ask, _named(sites, chosen)) if chosen else ask)
        return msgspec.structs.replace(answer, inboxes=list(sites)) if route.path == "/api/me" else answer
    if chosen:
        return told_at(chosen, await route.run(_at(ask, _named(sites, chosen))))
    if route.path in APART:
        return await apart(route, ask, _asked, ANSWER_SECONDS)
    if len(sites) == 1:
        ((only, site),) = sites.items()
        return told_at(only, await route.run(_at(ask, site)))
    _check_for_all(route, ask)
    if route.changes:
        return await _changed(route, replace(ask, act=secrets.token_hex(4)))
    answer = _as_one(await _asked(route.run, ask, sites, ANSWER_SECONDS), _most(ask))
    return _without_next(answer) if route.path in NUMBERED else answer


def _chosen(ask: Ask[Any, Any]) -> str | None:
    """The inbox that is named; an empty name may be a mistake, and is not taken for all of them."""
    sites = ask.site.inboxes
    found = ask.request.query_params.get("inbox") if sites else None
    if found == "":
        raise Refused(400, f"?inbox= is empty: give one of {', '.join(sites)}, or leave it out to ask all")
    return found


def _check_for_all(route: Route, ask: Ask[Any, Any]) -> None:
    """Refuse what is about one inbox, before anything is done."""
    why = OF_ONE.get(route.path)
    if route.verb == "enqueue":
        why = "a row goes into one inbox"
    if route.path in NUMBERED and "before" in ask.request.query_params:
        why = "each inbox has numbers of its own, so `before` is about one"
    if why:
        raise Refused(400, f"{why}: give ?inbox=, one of {', '.join(ask.site.inboxes)}")


def _without_next(answer: Reply) -> Reply:
    """Where the next page begins, is a number of one inbox: whoever wants to go on chooses it."""
    if "next" in answer.body:
        answer.body["next"] = None
    for each in answer.body["inboxes"].values():
        each.pop("next", None)
    return answer


def _named(sites: Mapping[str, Site], name: str) -> Site:
    if name not in sites:
        raise Refused(404, f"there is no inbox {name[:60]!r}: there are {', '.join(sites)}")
    return sites[name]


def _at(ask: Ask[Any, Any], site: Site) -> Ask[Any, Any]:
    return replace(ask, site=site.seen_by(ask.access))


def _most(ask: Ask[Any, Any]) -> int | None:
    return getattr(ask.query, "n", None) or getattr(ask.query, "limit", None)


async def _asked(
    run: Run, ask: Ask[Any, Any], sites: Mapping[str, Site], seconds: float | None = None
) -> dict[str, Any]:
    """What each answered, or the refusal; side by side. With `seconds`, who needs longer is away."""
    sites = dict(sites)  # one more may join meanwhile

    async def one(site: Site) -> Any:
        try:
            async with asyncio.timeout(seconds):
                return await run(_at(ask, site))
        except TimeoutError as error:
            late = f"the database has not answered within {seconds} s: try again"
            return refusal(error) if seconds is None else Refused(503, late)
        except NoAnswer as error:
            acts = ask.act and not getattr(ask.body, "dry_run", False)
            return _in_doubt(error) if acts else refusal(error)
        except Exception as error:
            return refusal(error)

    return dict(zip(sites, await asyncio.gather(*map(one, sites.values())), strict=True))


def _in_doubt(error: NoAnswer) -> Refused:
    return Refused(503, f"{error}: it may have been done, look into the audit of this inbox")


def _as_one(answers: Mapping[str, Any], most: int | None) -> Reply:
    """One answer of all. A mistake in the question is raised; a no counts if nobody says yes, and nobody is away."""
    here = {name: each for name, each in answers.items() if not isinstance(each, Refused)}
    refused = {name: each for name, each in answers.items() if isinstance(each, Refused)}
    away = {name: each for name, each in refused.items() if each.status == 503}
    for each in refused.values():
        if each.status not in (404, 503) and not here:
            raise each
    if not here:
        name, first = next(iter((away or refused).items()))
        said = f"{len(answers) - len(away)} of {len(answers)} inboxes answer, and {name} says: {first}"
        raise Refused(503, said) if away else first
    status = max(each.status if isinstance(each, Reply) else 200 for each in here.values())
    whole = as_document({name: _plain(each) for name, each in here.items()}, most)
    for name, each in refused.items():
        whole["inboxes"][name] = {"answers": each.status != 503, "error": str(each), "status": each.status}
    return Reply(status, whole)


def as_document(documents: dict[str, Any], most: int | None = None) -> dict[str, Any]:
    """The merged document; a page reads what it knows, so what differs stays as the first says it."""
    whole = merged(documents, most)
    for document in documents.values():
        whole = {**document, **whole}
    if isinstance(whole.get("groups"), list):
        whole["groups"] = _graves(whole["groups"])
    if len(documents) == 1:
        whole["inbox"] = next(iter(documents))
    return whole


def _graves(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What ended badly in the same way is one group, wherever it is: an act on its filter goes everywhere, too."""
    found: dict[str, dict[str, Any]] = {}
    for each in groups:
        known = found.setdefault(each["filter"], each)
        if known is not each:
            known["n"], known["more"] = known["n"] + each["n"], known["more"] or each["more"]
            known["first_at"] = min(known["first_at"], each["first_at"])
            known["inbox"] = f"{known['inbox']}, {each['inbox']}"
    return list(found.values())


def _plain(answer: Any) -> Any:
    body = answer.body if isinstance(answer, Reply) else answer
    return msgspec.json.decode(msgspec.json.encode(body))


def told_at(inbox: str, answer: Any) -> Any:
    """The answer of the one that was asked, with its name."""
    if isinstance(answer, Response):
        return answer
    status = answer.status if isinstance(answer, Reply) else 200
    return Reply(status, as_document({inbox: _plain(answer)}))


async def _changed(route: Route, ask: Ask[Any, Any]) -> Any:
    """The same change in each inbox, with the same act in every audit; what was counted before is not exceeded."""
    sites, expect = dict(ask.site.inboxes), getattr(ask.body, "expect", None)
    counts: dict[str, int] = {}
    if expect is not None:
        dry = replace(ask, body=msgspec.structs.replace(ask.body, dry_run=True, expect=None))
        counted = await _asked(route.run, dry, sites)
        _as_one(counted, None)
        counts = {name: each.matched for name, each in counted.items() if not isinstance(each, Refused)}
        if sum(counts.values()) > expect:
            raise Refused(409, f"{sum(counts.values())} rows match by now, not {expect}: count them again")
    answers: dict[str, Any] = {}
    for name, site in sites.items():
        if expect is not None and not counts.get(name) and any(counts.values()) and name in counts:
            continue  # none of these rows is there
        body = ask.body if expect is None else msgspec.structs.replace(ask.body, expect=counts.get(name, 0))
        answers |= await _asked(route.run, replace(ask, body=body), {name: site})
    whole = _as_one(answers, None)
    undone = any(isinstance(each, Refused) and each.status != 404 for each in answers.values())
    if undone and not getattr(ask.body, "dry_run", False):
        whole = Reply(207, whole.body)  # it is still to be done there
    for name in counts.keys() - answers.keys():
        whole.body["inboxes"][name] = {"answers": True}
    return whole
