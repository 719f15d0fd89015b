"""One word of the filter language, `FIELD:VALUE`: what may be written, how it is read, how it is written."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

from ..errors import USAGE, TenureError
from ..other_words import meant
from .rows import BUCKETS

# The statuses in the column. `pending` has two halves: `runnable` (due now) and `scheduled` (due later).
STATUSES = ("pending", "scheduled", "processing", "completed", "failed", "dead_letter", "cancelled")
ASKABLE = (*STATUSES, "runnable")

# Words of earlier versions: still accepted, with a hint.
OLD_STATUSES = {
    "held": "processing",
    "running": "processing",
    "dead": "dead_letter",
    "waiting": "scheduled",
    "delayed": "scheduled",
}

# What an old word may have meant besides.
_ALSO = {"waiting": " (rows behind another row of their key are pending: `tenure queues blocked`)"}

ATTEMPTS_MAX = 2**31 - 1
UNITS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}

# Every field, with an example of its value.
FIELDS = {
    "status": "dead_letter,failed",
    "kind": "send_receipt (or send_*)",
    "queue": "mail (or mail*)",
    "key": "order:9182 (or order:*)",
    "worker": "host-7-1f3a (or host-*)",
    "error": '"time out"',
    "payload.NAME": "9182",
    "attempts": ">3",
    "age": ">1h",
    "id": "a row's id",
    "idempotency": "receipt-9182",
    "fingerprint": "12 hex digits of a group of errors",
    "ordered": "yes",
    "bucket": "17",
}

_COLON = re.compile(r'((?:"(?:\\.|[^"\\])*"|[^":])+):(.*)', re.DOTALL)
_QUOTE = re.compile(
    r'"(?:\\.|[^"\\])*(?P<end>"?)', re.DOTALL
)  # also one that is not closed, so that none is tried twice
_QUOTED = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)
_PLAIN = re.compile(r'[^\s",\\]+')
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_AGE = re.compile(r"([<>])(\d{1,12}(?:\.\d{1,400})?)([smhdw])")
_ATTEMPTS = re.compile(r"(?:(?P<sign>[<>]=?)?(?P<n>\d{1,9})|(?P<low>\d{1,9})\.\.(?P<high>\d{1,9}))")


class BadFilter(TenureError, ValueError):
    """A filter that cannot be read; `word` is the part that is wrong."""

    exit_code = USAGE

    def __init__(self, sentence: str, word: str = "") -> None:
        self.word = word
        super().__init__(sentence)


def must(holds: bool, sentence: str) -> None:
    """Raise BadFilter with this sentence unless it holds."""
    if not holds:
        raise BadFilter(sentence)


def read(word: str) -> Iterator[tuple[str, Any]]:
    """One word as fields of a Filter."""
    if _UUID.fullmatch(word):
        yield "ids", (UUID(word),)
        return
    is_closed = all(quote["end"] for quote in _QUOTE.finditer(word))
    must(is_closed, f'a quote is not closed in {word!r}: end it, or write it as \\" in quotes')
    split = _COLON.fullmatch(word)
    must(split is not None, f"{word!r} must be FIELD:VALUE; {_FIELDS_SAID}")
    assert split is not None
    name, value = split.groups()
    if name.startswith("payload."):
        yield "payload", ((_unquoted(name.removeprefix("payload.")), _unquoted(value)),)
        return
    must(name in _READERS, _unknown(name))
    must(value != "", f"{word!r} has no value: write it as {name}:{FIELDS[name].split(' ')[0]}")
    yield _READERS[name](value)
    if name == "status":
        yield "hints", _hints(value)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, [*_READERS, "payload.NAME"], 1)
    return f"there is no field {name!r}" + (f", did you mean {near[0]!r}?" if near else f"; {_FIELDS_SAID}")


_FIELDS_SAID = f"the fields are {', '.join(FIELDS)}"


def _text(field: str) -> Callable[[str], tuple[str, Any]]:
    return lambda value: (field, _unquoted(value))


def _statuses(value: str) -> tuple[str, Any]:
    return "statuses", tuple(dict.fromkeys(OLD_STATUSES.get(each, each) for each in value.split(",")))


def _hints(value: str) -> tuple[str, ...]:
    old = dict.fromkeys(each for each in value.split(",") if each in OLD_STATUSES)
    return tuple(f"status:{each} is now status:{OLD_STATUSES[each]}{_ALSO.get(each, '')}" for each in old)


def no_status(word: str) -> str:
    """The sentence about a status that does not exist, with the one that was probably meant."""
    if word == "blocked":
        return f"there is no status {word!r}: such rows are pending, and `tenure queues blocked` lists their keys"
    near = meant(word, ASKABLE)
    asks = f"did you mean {near!r}? There" if near else "there"
    return f"there is no status {word!r}: {asks} are {', '.join(ASKABLE)}"


def _ids(value: str) -> tuple[str, Any]:
    for each in value.split(","):
        must(_UUID.fullmatch(each) is not None, f"{each!r} must be a row id, like {UUID(int=0)}")
    return "ids", tuple(dict.fromkeys(map(UUID, value.split(","))))


def _age(value: str) -> tuple[str, Any]:
    found = _AGE.fullmatch(value)
    must(found is not None, f"age:{value} must be an age: write age:>1h or age:<5m, in s, m, h, d or w")
    assert found is not None
    sign, n, unit = found.groups()
    return "older_seconds" if sign == ">" else "newer_seconds", float(n) * UNITS[unit]


def _attempts(value: str) -> tuple[str, Any]:
    found = _ATTEMPTS.fullmatch(value)
    must(
        found is not None,
        f"attempts:{value} must be a number: write attempts:3, attempts:>3, attempts:<3 or attempts:2..5",
    )
    assert found is not None
    n = int(found["n"] or 0)
    spans = {
        None: (int(found["low"] or n), int(found["high"] or n)),
        ">": (n + 1, ATTEMPTS_MAX),
        ">=": (n, ATTEMPTS_MAX),
        "<": (0, n - 1),
        "<=": (0, n),
    }
    low, high = spans[found["sign"]]
    must(low <= high, f"attempts:{value} matches no number: give the lower one first, from 0")
    return "attempts", (low, high)


def _ordered(value: str) -> tuple[str, Any]:
    must(value in ("yes", "no"), f"ordered:{value} must be yes or no")
    return "ordered", value == "yes"


def _bucket(value: str) -> tuple[str, Any]:
    must(
        value.isascii() and value.isdigit() and len(value) < 9,
        f"bucket:{value} must be a number from 0 to {BUCKETS - 1}",
    )
    return "bucket", int(value)


_READERS: dict[str, Callable[[str], tuple[str, Any]]] = {
    "status": _statuses,
    "kind": _text("kind"),
    "queue": _text("queue"),
    "key": _text("key"),
    "worker": _text("worker"),
    "error": _text("error"),
    "attempts": _attempts,
    "age": _age,
    "id": _ids,
    "idempotency": _text("idempotency_key"),
    "fingerprint": _text("fingerprint"),
    "ordered": _ordered,
    "bucket": _bucket,
}


def quoted(text: str, besides: str = "") -> str:
    """The text as a word holds it: in quotes if it contains a blank, a quote, a comma, or one of `besides`."""
    if _PLAIN.fullmatch(text) and not set(besides) & set(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unquoted(text: str) -> str:
    return _QUOTED.sub(lambda found: re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL), text)


def in_unit(seconds: float) -> str:
    """Seconds in the largest unit that gives a whole number: 7200 is `2h`."""
    unit = next((name for name, size in UNITS.items() if seconds and seconds % size == 0), "s")
    said = f"{Decimal(repr(seconds / UNITS[unit])):f}"
    return said.removesuffix(".0") + unit
