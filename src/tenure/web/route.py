"""A route is a value: method, path, verb, input and answers. The API and its description are made of routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, TypeVar
from uuid import UUID

import msgspec
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from ..model.filter import Filter, is_prefix, literal
from ..operate import Actor, noted
from ..operator_verbs import OPERATOR_VERBS
from ..verbs.statement import Statement
from .access import PUBLIC, VERBS, Access
from .bodies import read_body
from .explained import explained
from .http_errors import Refused
from .site import Site

Q = TypeVar("Q")
B = TypeVar("B")
S = TypeVar("S")
T = TypeVar("T")

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128, extra_json_schema={"format": "tenure-name"})]
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=512, extra_json_schema={"format": "tenure-name"})]
FilterText = Annotated[str, msgspec.Meta(max_length=4000, extra_json_schema={"format": "tenure-filter"})]


class Text(PathConvertor):
    """Any name in a path, as {name:text}: names of queues and workers may contain slashes and line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("text", Text())


class Asked(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The fields of a query or a body; unknown fields are refused.

    `rules` are for the description: rules between the fields, as JSON Schema.
    """

    rules: ClassVar[tuple[Mapping[str, Any], ...]] = ()


class Nothing(Asked, frozen=True):
    """No query, or no body."""


class Why(Asked, frozen=True):
    """Why, for the audit. The body may be left out."""

    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""


class Error(msgspec.Struct, frozen=True):
    """What went wrong, in one sentence that names the value and the next step."""

    error: str


def when(given: Mapping[str, Any], then: Mapping[str, Any]) -> Mapping[str, Any]:
    """A rule: if these fields have these values, those must be given too."""
    return {"if": together(given), "then": together(then)}


def together(fields: Mapping[str, Any]) -> dict[str, Any]:
    """All of these fields are given and match."""
    return {"properties": fields, "required": list(fields)}


@dataclass(frozen=True, slots=True)
class Ask(Generic[Q, B]):
    """One request after its checks: who asks for what."""

    request: Request
    site: Site
    access: Access
    query: Q
    body: B
    path: Mapping[str, Any]
    act: str = ""  # what the lines of one act have in common, in the audits of several inboxes

    @property
    def actor(self) -> Actor:
        """The name in the audit."""
        return Actor(self.access.actor, f"http:{self.act}" if self.act else "http")

    def require(self, verb: str) -> None:
        """Refuse unless the role is enough for this verb."""
        require(self.access, verb)

    async def change(self, statement: Statement[T], target: str, reason: str = "", verb: str = "") -> T:
        """Run one verb and write its line of the audit, both or neither."""
        schema, named = self.site.store.schema, verb or statement.name
        why = reason or (self.body.reason if isinstance(self.body, Why) else "")
        answer = await self.site.store.blocking(
            lambda conn: noted(conn, statement, self.actor, named, target, schema, reason=why, seal=False)
        )
        self.site.witness.seal_soon()
        return answer

    def filter(self, text: str) -> Filter:
        """The filter of this text; refused if it may find what the asker may not see."""
        return within(self.access, self.site.filter(text))


class Reply(msgspec.Struct, frozen=True):
    """An answer with a status other than 200."""

    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class Route:
    """What a method on a path does, and its verb in access.VERBS."""

    method: str
    path: str
    verb: str
    run: Callable[[Ask[Any, Any]], Awaitable[Any]]
    answers: Mapping[int, Any]  # by status: a type, a list of types of which it is one, a tuple of media types, or None
    query: type[Asked] = Nothing
    body: Any = None  # a struct, usually an Asked, or a union of them
    types: Mapping[str, Any] = field(default_factory=dict)  # types of the names in the path
    by_queue: bool = False  # it keeps to the queues of who asks; others are closed to whoever has not all

    def __post_init__(self) -> None:
        if self.verb not in VERBS and self.verb != PUBLIC:
            raise ValueError(f"{self.method} {self.path} names the verb {self.verb!r}, which has no role in VERBS")

    @property
    def changes(self) -> bool:
        """Does it change something?"""
        return self.method not in ("GET", "HEAD")

    @property
    def says(self) -> str:
        """What it does: the sentence of its operator verb, else the docstring of its function."""
        if self.verb in OPERATOR_VERBS:
            return OPERATOR_VERBS[self.verb].does
        return (self.run.__doc__ or "").strip().splitlines()[0]


def require(access: Access, verb: str) -> None:
    """Refuse unless the role is enough for this verb."""
    if verb == "reveal" and not access.may(verb):
        raise Refused(403, f"{access.actor!r} has no right to see payloads: it is given as role+reveal, or --reveal")
    if not access.may(verb):
        raise Refused(403, f"{verb} needs the role {VERBS[verb]}, {access.actor!r} has {access.role}")


def within(access: Access, filter: Filter) -> Filter:
    """The filter; refused unless it names one of the queues that the asker may see."""
    queue = literal(filter.queue) if filter.queue is not None and not is_prefix(filter.queue) else None
    if access.queues is None or (queue is not None and access.sees(queue)):
        return filter
    raise Refused(403, f"{access.actor!r} is for {_listed(access)}: name one in the filter, as in queue:NAME")


def require_queue(access: Access, queue: str) -> None:
    """Refuse unless this queue is among those of the asker."""
    if not access.sees(queue):
        raise Refused(403, f"{access.actor!r} is for {_listed(access)}, not for queue {queue[:60]!r}")


def require_all_queues(access: Access) -> None:
    """Refuse whoever may see only some queues: the answer is about all of them."""
    if access.queues is not None:
        raise Refused(403, f"{access.actor!r} is for {_listed(access)}, and this is about every queue")


def _listed(access: Access) -> str:
    named = ", ".join(sorted(access.queues or ()))[:200]
    return f"the queue{'s' if len(access.queues or ()) > 1 else ''} {named}"


async def understood(request: Request, route: Route, *, several: bool = False) -> tuple[Any, Any, dict[str, Any]]:
    """Query, body and path of a request as the route's types, or a refusal that names the wrong value.

    Of `several` inboxes one may be named in any query.
    """
    types = {"id": UUID, "name": Name, **route.types}
    path = {name: converted(value, types[name], name) for name, value in request.path_params.items()}
    given = _once(request.query_params)
    if several:
        given.pop("inbox", None)  # which of them is asked
    query = converted(given, route.query, "query")
    if not route.changes:
        return query, None, path
    body = await read_body(request, route.body or Nothing, may_be_empty=route.body in (None, Why))
    return query, body if route.body is not None else None, path


def _once(params: QueryParams) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in params.multi_items():
        if name in found:
            raise Refused(400, f"{name[:60]!r} is given twice: give it once")
        found[name] = value
    return found


def converted(value: Any, kind: type[S], where: str) -> S:
    """The value as this type, or a refusal."""
    texts = value.values() if isinstance(value, dict) else [value]
    if any("\x00" in text for text in texts):
        raise Refused(400, f"{where} contains a NUL character, which Postgres cannot store: remove it")
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(400, f"{where}: {explained(error, kind)}") from None


def encoded(answer: Any) -> Response:
    """A struct as JSON, with its status."""
    if isinstance(answer, Response):
        return answer
    status, body = (answer.status, answer.body) if isinstance(answer, Reply) else (200, answer)
    return Response(msgspec.json.encode(body), status, {"cache-control": "no-store"}, "application/json")
