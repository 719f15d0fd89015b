"""Hot keys: one key spread over shards, so that many workers can share what one could not carry.

Work of one key lands in one bucket, and if it is ordered runs one row at a time. Where a tenant outgrows that, its
producer chooses a shard: `key=shard("tenant:123", of=8, by=order_id)` gives `tenant:123#shard-3`, order is kept per
order id, and eight rows of the tenant may run at once.

Changing `of` while rows are queued puts new rows of an entity on another shard than its old ones, where they may
overtake them. If order matters, drain first: stop the producers of the key, wait until none of `shards(key, old_of)`
has rows left, then start them with the new number.
"""

from __future__ import annotations

import re
import secrets
from hashlib import shake_128

from ..errors import InvalidPayload
from .payload import KEY_BYTES_MAX, check_text

SHARDS_MAX = 1024
_MARK = "#shard-"
_SUFFIX = re.compile(rf"{_MARK}[0-9]{{1,4}}\Z")


def shard(key: str, of: int, by: str | int | None = None) -> str:
    """The key of one of `of` shards: always the same one for the same `by`, any of them when `by` is None.

    An id is the same id as number and as text. With `of=1` it is the key itself, as if there were no shards.
    """
    _check(key, of)
    return _name(key, of, secrets.randbelow(of) if by is None else _place(by) % of)


def shards(key: str, of: int) -> tuple[str, ...]:
    """The keys of all its shards, to ask about them or to drain them."""
    _check(key, of)
    return tuple(_name(key, of, number) for number in range(of))


def unsharded(key: str) -> str:
    """The key that a shard is part of; a key that is no shard is given back as it is."""
    return _SUFFIX.sub("", key)


def _name(key: str, of: int, number: int) -> str:
    return key if of == 1 else f"{key}{_MARK}{number}"


def _place(by: str | int) -> int:
    """A number drawn from `by` alone; a contract between producers of every version, like the ring's weights."""
    if not isinstance(by, str | int) or isinstance(by, bool):
        raise InvalidPayload(f"by={by!r} is {type(by).__name__}, not text or a whole number: send its id, as str(id)")
    text = check_text(str(by), "by")
    return int.from_bytes(shake_128(text.encode()).digest(8), "big")


def _check(key: str, of: int) -> None:
    if not isinstance(of, int) or isinstance(of, bool) or not 1 <= of <= SHARDS_MAX:
        raise InvalidPayload(
            f"of={of!r} must be a whole number within 1 and {SHARDS_MAX}: there are no more buckets than that"
        )
    if not isinstance(key, str) or not key:
        raise InvalidPayload(f"key={key!r} must be text that is not empty: name what the shards are of")
    check_text(key, "key")
    if _MARK in key:
        raise InvalidPayload(f"key={key[:80]!r} contains {_MARK!r}: give the key without its shard, as unsharded(key)")
    # The longest name decides for all, or whether a row is taken would hang on the shard it falls to.
    if (size := len(_name(key, of, of - 1).encode())) > KEY_BYTES_MAX:
        raise InvalidPayload(
            f"key={key[:40]!r}… has {size} bytes with its shard: shorten it, the limit is {KEY_BYTES_MAX}"
        )
