"""The key of a handler: fixed, or made of the fields of a payload like 'order:{order_id}'."""

from __future__ import annotations

import re
from string import Formatter

from ..errors import BadSettings


def check_key(kind: str, key: object, fields: tuple[str, ...] | None) -> None:
    """BadSettings if a key such as 'order:{order_id}' cannot be made, as far as that is known without a payload."""
    check_template(f"handler {kind!r} has key={key!r}", key, fields)


def check_template(has: str, key: object, fields: tuple[str, ...] | None) -> None:
    """The same of any text that is made so; `has` says who has it."""
    try:
        named = fields_of_key(key)
    except ValueError as error:
        raise BadSettings(f"{has}, which cannot be read ({error}): write a brace twice") from None
    for name in named:
        if fields is not None and name not in fields:
            takes = ", ".join(fields) or "no fields"
            raise BadSettings(f"{has}, but it does not take {name!r}: it takes {takes}")


def fields_of_key(key: object) -> list[str]:
    """The fields of the payload that a key such as 'order:{order_id}' names."""
    parts = list(Formatter().parse(key)) if isinstance(key, str) else []
    if wrong := [how for *_, how in parts if how not in (None, "s", "r", "a")]:
        raise ValueError(f"there is no conversion '!{wrong[0]}'")
    named = [name for _, name, _, _ in parts if name is not None]
    return [re.split(r"[.\[]", each)[0] for each in named]
