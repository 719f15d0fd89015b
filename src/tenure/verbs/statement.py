"""A verb is a value: which SQL, with which parameters, and how to read the answer. postgres/ runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Statement(Generic[T]):
    """One verb or question, ready to run; `read` may return another Statement when one reply is not enough."""

    name: str
    params: Mapping[str, Any]
    read: Callable[[Rows], T | Statement[T]]


def insisting(statement: Statement[T], otherwise: Exception) -> Statement[T]:
    """The same statement; where it finds nothing this is raised, and all is undone, the line of the audit too."""

    def read(rows: Rows) -> T | Statement[T]:
        if not rows:
            raise otherwise
        return statement.read(rows)

    return Statement(statement.name, statement.params, read)


def at_its_end(statement: Statement[T], ended: Callable[[], Exception]) -> Statement[T]:
    """The last statement of a transaction that `enter` began: raises this error if another one was begun since.

    A driver shows only that there is one: after COMMIT AND CHAIN there is. The mark of `enter`, which the statement
    returns last, ends with its own transaction.
    """

    def read(rows: Rows) -> T | Statement[T]:
        if rows and rows[0][-1] != "yes":
            raise ended()
        return statement.read(rows)

    return Statement(statement.name, statement.params, read)


def array(values: Sequence[object]) -> str:
    """Numbers (or ids in hex) as one Postgres array literal; None is NULL.

    psycopg adapts a list element by element: with batches of 100 that takes much of the loop (make bench-claim).
    """
    return "{" + ",".join(map(str, values)).replace("None", "NULL") + "}"


def text_array(values: Sequence[str | None]) -> str:
    """Texts as one Postgres array literal, whatever is in them but NUL characters; None is NULL."""
    if not values:
        return "{}"
    if None not in values:
        joined = "\0".join(values)  # type: ignore[arg-type]
        if joined.count("\0") != len(values) - 1:
            raise ValueError("a text contains a NUL character")
        return '{"' + _quotable(joined).replace("\0", '","') + '"}'
    return "{" + ",".join(["NULL" if value is None else f'"{_quotable(value)}"' for value in values]) + "}"


def _quotable(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
