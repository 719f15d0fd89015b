"""JSON as Postgres gives it back from jsonb: names in its own order, numbers without exponents.

What is used once before it is stored and read back ever after must be the same in both: a loop over it would take
another turn.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import msgspec

_MAY_DIFFER = re.compile(r"\{.*,|[0-9][eE]|-0", re.DOTALL)  # also in a string: that costs a look, no more


def as_stored(text: str) -> str:
    """The same, as jsonb has it."""
    return _encode(_decode(text)).decode() if _MAY_DIFFER.search(text) else text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Short names first, then by their bytes; of equal names the last."""
    return dict(sorted(dict(pairs).items(), key=lambda pair: (len(name := pair[0].encode()), name)))


def _int(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def _float(text: str) -> msgspec.Raw:
    """With all its digits; zero has no sign."""
    number = Decimal(text)
    return msgspec.Raw(format(number if number else abs(number), "f").encode())


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_int=_int).decode
_encode = msgspec.json.Encoder().encode
