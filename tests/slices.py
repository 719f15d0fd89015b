"""How much of the slow tests a run takes: `make test` a slice of each, `make test-all` (TENURE_TEST=all) everything."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")
EVERYTHING = os.environ.get("TENURE_TEST") == "all"


def slice_of(everything: T, slice: T) -> T:
    """Everything in a run of everything, else the slice."""
    return everything if EVERYTHING else slice
