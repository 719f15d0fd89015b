"""The verbs of kinds: workers declare how their handlers send rows, and producers that cannot import them ask."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.declaration import Declaration
from .statement import Statement


def declare(worker: str, kinds: Sequence[Declaration]) -> Statement[int]:
    """Publish how the rows of these kinds are sent; returns how many kinds there are."""
    return Statement(
        "declare",
        {
            "worker": worker,
            "kinds": [each.kind for each in kinds],
            "queues": [each.queue for each in kinds],
            "keyed": [each.keyed for each in kinds],
            "key_templates": [each.key_template for each in kinds],
            "ordered": [each.ordered for each in kinds],
            "holds": [each.hold for each in kinds],
            "priorities": [each.priority for each in kinds],
            "max_attempts": [each.max_attempts for each in kinds],
            "encrypted": [each.encrypted for each in kinds],
        },
        len,
    )


def declared(kind: str) -> Statement[list[Declaration]]:
    """The ways in which a kind was declared, the first one counts; none if no worker has declared it."""
    return Statement("declared", {"kind": kind}, lambda rows: [Declaration(*row) for row in rows])
