"""Hot keys: one key spread over shards, so that many workers share its rows.

Rows of one key are in one bucket, and an ordered key runs one row at a time. If that is too slow for a tenant, its
producer chooses a shard: `key=shard("tenant:123", of=8, by=order_id)` gives `tenant:123#shard-3`, order is kept per
order id, and eight rows of the tenant may run at once.

If `of` changes while rows are pending, new rows of an entity go to another shard and may overtake its old rows. If
order matters, stop the producers of the key, wait until none of `shards(key, old_of)` has rows left, then start the
producers with the new number.
"""

from __future__ import annotations

import re
import secrets
from hashlib import shake_128

from ..errors import InvalidPayload
from .limits import KEY_BYTES_MAX
from .payload import check_text

SHARDS_MAX = 1024
_MARK = "#shard-"
_SUFFIX = re.compile(rf"{_MARK}[0-9]{{1,4}}\Z")


def shard(key: str, of: int, by: str | int | None = None) -> str:
    """The key of one of `of` shards: always the same one for the same `by`, any of them when `by` is None.

    The number 7 and the text "7" give the same shard. With `of=1` it is the key itself.
    """
    _check(key, of)
    return _name(key, of, secrets.randbelow(of) if by is None else _place(by) % of)


def shards(key: str, of: int) -> tuple[str, ...]:
    """The keys of all its shards, to ask about them or to drain them."""
    _check(key, of)
    return tuple(_name(key, of, number) for number in range(of))


def unsharded(key: str) -> str:
    """The key that a shard is part of; a key that is not a shard is returned unchanged."""
    return _SUFFIX.sub("", key)


def _name(key: str, of: int, number: int) -> str:
    return key if of == 1 else f"{key}{_MARK}{number}"


def _place(by: str | int) -> int:
    """A number that depends on `by` alone. Producers of every version must agree on it, as on the ring's weights."""
    if not isinstance(by, str | int) or isinstance(by, bool):
        raise InvalidPayload(
            f"by={by!r} must be text or a whole number, not {type(by).__name__}: send its id, as str(id)"
        )
    text = check_text(str(by), "by")
    return int.from_bytes(shake_128(text.encode()).digest(8), "big")


def _check(key: str, of: int) -> None:
    if not isinstance(of, int) or isinstance(of, bool) or not 1 <= of <= SHARDS_MAX:
        raise InvalidPayload(f"of={of!r} must be a whole number between 1 and {SHARDS_MAX}, the number of buckets")
    if not isinstance(key, str) or not key:
        raise InvalidPayload(f"key={key!r} must be text that is not empty: it is the key to split into shards")
    check_text(key, "key")
    if _MARK in key:
        raise InvalidPayload(f"key={key[:80]!r} contains {_MARK!r}: give the key without its shard, as unsharded(key)")
    # Check the longest name of all shards: whether a row is accepted must not depend on its shard.
    if (size := len(_name(key, of, of - 1).encode())) > KEY_BYTES_MAX:
        raise InvalidPayload(
            f"key={key[:40]!r}… has {size} bytes with its shard: shorten it, the limit is {KEY_BYTES_MAX}"
        )
