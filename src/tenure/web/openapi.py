"""OpenAPI 3.1, written from the table of routes that the API itself uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import msgspec

from .. import __version__
from ..operator_verbs import ON_ROWS
from .access import COOKIE, PUBLIC, VERBS
from .route import Error, Name, Route, Why

REFERENCE = "#/components/schemas/{name}"
SECURITY: list[dict[str, list[str]]] = [{"bearer": []}, {"basic": []}, {"cookie": []}]
SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}
SAME_SITE = {
    "name": "x-tenure",
    "in": "header",
    "required": True,
    "description": "Keeps forms of other sites out: they cannot send it.",
    "schema": {"type": "string", "enum": ["1"]},
}
REFUSALS = {
    400: "A value is wrong: the sentence names it.",
    401: "Not logged in.",
    403: "Your role is not enough, or the request may come from another site.",
    408: "The body did not come in time.",
    413: "The body is longer than 2 MiB.",
    415: "The body is not application/json.",
    429: "Too many wrong logins: wait as long as retry-after says.",
    503: "The database does not answer, or took too long.",
}


def document(routes: Iterable[Route], prefix: str) -> dict[str, Any]:
    """The whole description, for an app mounted at this prefix."""
    routes = list(routes)
    schemas, components = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(_path(route), {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tenure", "version": __version__, "description": "Durable work in Postgres."},
        "servers": [{"url": prefix or "/"}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": SCHEMES},
    }


def _schemas(routes: list[Route]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """The schema of every type that a route uses, and the schemas those refer to."""
    types: list[Any] = [Error]
    for route in routes:
        types += [kind for answer in route.answers.values() for kind in _kinds(answer)]
        types += [_type_of(route, name) for name in _names(route)]
        types += [each.type for each in msgspec.structs.fields(route.query)]
        types += [route.body] if route.body else []
    made, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    return {repr(kind): schema for kind, schema in zip(types, made, strict=True)}, dict(components)


def _kinds(answer: Any) -> list[Any]:
    """The types of an answer: none for text, several where it may be one of them."""
    if answer is None or isinstance(answer, tuple):
        return []
    return answer if isinstance(answer, list) else [answer]


def _path(route: Route) -> str:
    return route.path.replace(":text}", "}")


def _names(route: Route) -> list[str]:
    return re.findall(r"{(\w+)", route.path)


def _type_of(route: Route, name: str) -> Any:
    return {"id": UUID, "name": Name, **route.types}[name]


def _operation(route: Route, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{_path(route)}").strip("_"),
        "summary": route.says,
        "parameters": [*_in_path(route, schemas), *_in_query(route, schemas), *([SAME_SITE] if route.changes else [])],
        "responses": _responses(route, schemas),
        "security": [] if route.verb == PUBLIC else SECURITY,
    }
    if route.verb != PUBLIC:
        described["description"] = _needs(route)
    if route.body is not None:
        described["requestBody"] = {"required": route.body is not Why, "content": _json(_ruled(route.body, schemas))}
    return described


def _needs(route: Route) -> str:
    """The role a route needs; for actions on rows, the role and sentence of each verb."""
    if route.verb != "act":
        return f"Needs the role {VERBS[route.verb]}."
    return "\n".join(f"- {verb.name} needs the role {verb.role}: {verb.does}" for verb in ON_ROWS.values())


def _in_path(route: Route, schemas: Mapping[Any, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": schemas[repr(_type_of(route, name))]}
        for name in _names(route)
    ]


def _in_query(route: Route, schemas: Mapping[Any, Any]) -> list[dict[str, Any]]:
    return [
        {"name": each.encode_name, "in": "query", "required": each.required, "schema": schemas[repr(each.type)]}
        for each in msgspec.structs.fields(route.query)
    ]


def _responses(route: Route, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    told = {str(status): _answer(kind, schemas) for status, kind in route.answers.items()}
    for status, words in REFUSALS.items():
        if _can_refuse(route, status):
            told.setdefault(str(status), {"description": words, "content": _json(schemas[repr(Error)])})
    return told


def _can_refuse(route: Route, status: int) -> bool:
    if status in (408, 413, 415):
        return route.changes
    if status in (401, 429):
        return route.verb != PUBLIC
    return status != 403 or route.verb != PUBLIC or route.changes


def _answer(kind: Any, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    if kind is None:
        return {"description": "Done."}
    if isinstance(kind, tuple):
        return {"description": "A stream of text.", "content": {each: {} for each in kind}}
    says = (_kinds(kind)[0].__doc__ or "The answer.").strip().splitlines()[0]
    found = [schemas[repr(each)] for each in _kinds(kind)]
    return {"description": says, "content": _json(found[0] if len(found) == 1 else {"anyOf": found})}


def _ruled(kind: Any, schemas: Mapping[Any, Any]) -> Any:
    """A body's schema, and the rules between its fields."""
    schema, rules = schemas[repr(kind)], getattr(kind, "rules", ())
    return {"allOf": [schema, *rules]} if rules else schema


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
