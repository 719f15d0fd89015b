"""For your tests: a real Postgres, a schema for each test, real workers, and a crash at every line of a handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .forked import ForkedWorker as ForkedWorker
    from .heard import Heard as Heard
    from .testbed import Testbed as Testbed
    from .threaded import Ran as Ran

_HOME_OF = {"ForkedWorker": "forked", "Heard": "heard", "Ran": "threaded", "Testbed": "testbed"}

__all__ = ["ForkedWorker", "Heard", "Ran", "Testbed"]


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: pytest loads this package in every project that has Tenure."""
    import importlib

    if name in _HOME_OF:
        return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
