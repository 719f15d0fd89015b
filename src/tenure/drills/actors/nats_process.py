"""A NATS server that ends with its drill: this process becomes it."""

from __future__ import annotations

import json
import os

from ...console.signals import die_with_parent
from .protocol import hear


def main() -> None:
    """The wish to end with the parent outlives the exec."""
    die_with_parent()
    part = json.loads(hear())
    os.execv(part["binary"], [part["binary"], "-c", part["settings"]])  # noqa: S606 -- a shell would only be in the way


if __name__ == "__main__":
    main()
