"""Attributes that few attempts need: made when they are first asked for, by whichever thread asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class made_late(Generic[T]):
    """`met = made_late[dict[str, int]](dict)`: a dict of each object's own; the first that is made stays."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._name = make, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, of: Any, owner: type) -> T:
        made: T = of.__dict__.setdefault(self._name, self._make())
        return made
