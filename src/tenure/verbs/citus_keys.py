"""What workers of a Citus cluster do for its door."""

from __future__ import annotations

from .statement import Statement

KEYS_KEPT_SECONDS = 14 * 86_400.0


def forget_keys(seconds: float = KEYS_KEPT_SECONDS) -> Statement[int]:
    """Forget old idempotency keys of the cluster. The inbox of a row that is still there knows its key, too."""
    return Statement("forget_keys", {"seconds": seconds}, lambda rows: int(rows[0][0]))
