"""The key of a handler: fixed, or made of the fields of a payload like 'order:{order_id}'."""

from __future__ import annotations

import re
from string import Formatter

from ..errors import BadSettings


def check_key(kind: str, key: object, fields: tuple[str, ...] | None) -> None:
    """BadSettings if a key such as 'order:{order_id}' cannot be made, as far as that is known without a payload."""
    try:
        named = fields_of_key(key)
    except ValueError as error:
        raise BadSettings(
            f"handler {kind!r} has key={key!r}, which cannot be read ({error}): write a brace twice"
        ) from None
    for name in named:
        if fields is not None and name not in fields:
            takes = ", ".join(fields) or "no fields"
            raise BadSettings(f"handler {kind!r} has key={key!r}, but it does not take {name!r}: it takes {takes}")


def fields_of_key(key: object) -> list[str]:
    """The fields of the payload that a key such as 'order:{order_id}' names."""
    named = [name for _, name, _, _ in Formatter().parse(key) if name is not None] if isinstance(key, str) else []
    return [re.split(r"[.\[]", each)[0] for each in named]
