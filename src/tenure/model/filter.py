"""The filter language: words that must all hold of a row, one language for command line, HTTP and dashboard."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from ..errors import USAGE, TenureError
from .rows import BUCKETS

# What stands in the column, and the two halves of pending: due now, and not yet.
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

TEXT_MAX = 1000
IDS_MAX = 1000
WORDS_MAX = 100
ATTEMPTS_MAX = 2**31 - 1
AGE_SECONDS_MAX = 3_155_760_000.0
UNITS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}

# What a word may ask about, and how its value looks.
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

_WORD = re.compile(r'(?:"(?:\\.|[^"\\])*"|[^\s"])+(?P<open>"\S*)?|"\S*', re.DOTALL)
_COLON = re.compile(r'((?:"(?:\\.|[^"\\])*"|[^":])+):(.*)', re.DOTALL)
_QUOTED = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)
_PLAIN = re.compile(r'[^\s",\\]+')
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_AGE = re.compile(r"([<>])(\d{1,12}(?:\.\d{1,400})?)([smhdw])")
_ATTEMPTS = re.compile(r"(?:(?P<sign>[<>]=?)?(?P<n>\d{1,9})|(?P<low>\d{1,9})\.\.(?P<high>\d{1,9}))")
_HEX = re.compile(r"[0-9a-f]{12}")


class BadFilter(TenureError, ValueError):
    """A filter that means nothing; `word` is the part of it that is wrong."""

    exit_code = USAGE

    def __init__(self, sentence: str, word: str = "") -> None:
        self.word = word
        super().__init__(sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What must hold of a row; None or empty asks nothing. `str` gives the words, `parse` reads them again.

    A trailing `*` of kind, queue, key and worker stands for any end (`\\*` for the star itself). Ages count from
    created_at. A worker is the one that holds the row, or held it last. `hints` names each old word that was read and
    the word to write now ("status:held is now status:processing"); it asks nothing of a row.
    """

    statuses: tuple[str, ...] = ()
    kind: str | None = None
    queue: str | None = None
    key: str | None = None
    worker: str | None = None
    error: str | None = None
    payload: tuple[tuple[str, str], ...] = ()
    attempts: tuple[int, int] | None = None
    older_seconds: float | None = None
    newer_seconds: float | None = None
    ids: tuple[UUID, ...] = ()
    idempotency_key: str | None = None
    fingerprint: str | None = None
    ordered: bool | None = None
    bucket: int | None = None
    hints: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for text in (self.kind, self.queue, self.key, self.worker, self.error, self.idempotency_key):
            if text is not None:
                _check_text(text)
        for name, value in self.payload:
            _check_text(name)
            _check_text(value, least=0)
        for status in self.statuses:
            _must(status in ASKABLE, f"there is no status {status!r}: there are {', '.join(ASKABLE)}")
        for seconds in (self.older_seconds, self.newer_seconds):
            known = seconds is None or (math.isfinite(seconds) and 0 <= seconds <= AGE_SECONDS_MAX)
            _must(known, f"an age of {seconds} s means nothing: give one from 0 s to 100 years")
        if self.attempts is not None:
            low, high = self.attempts
            _must(0 <= low <= high <= ATTEMPTS_MAX, f"attempts from {low} to {high} are none: give the lower one first")
        if self.bucket is not None:
            _must(0 <= self.bucket < BUCKETS, f"there is no bucket {self.bucket}: there are 0 to {BUCKETS - 1}")
        if self.fingerprint is not None:
            looks = _HEX.fullmatch(self.fingerprint) is not None
            _must(looks, f"{self.fingerprint!r} is no fingerprint: it has 12 hex digits, `tenure dead` shows them")
        _must(len(self.ids) <= IDS_MAX, f"{len(self.ids)} ids are too many: give {IDS_MAX} at most")

    def __str__(self) -> str:
        """The filter in its own words, always in the same order."""
        return " ".join(_words(self))

    def __bool__(self) -> bool:
        """False when every row matches."""
        return self != EVERYTHING


def is_prefix(text: str) -> bool:
    """True when the text stands for all that begins with it."""
    return text.endswith("*") and not text.endswith("\\*")


def literal(text: str) -> str:
    """The text that is meant, with the star it ends in if it has one of its own."""
    return text[:-2] + "*" if text.endswith("\\*") else text


def parse(text: str) -> Filter:
    """The filter that these words say, or BadFilter with the word that is wrong."""
    words = [found[0] for found in _WORD.finditer(text)]
    _must(len(words) <= WORDS_MAX, f"a filter of {len(words)} words is too long: give {WORDS_MAX} at most")
    given: dict[str, Any] = {}
    for word in words:
        try:
            for name, value in _read(word):
                _must(name not in given or name == "payload", f"{word!r} says the same twice: give each field once")
                given[name] = given.get(name, ()) + value if name == "payload" else value
            Filter(**given)
        except BadFilter as bad:
            raise BadFilter(str(bad), word) from None
    return Filter(**given)


def _read(word: str) -> Iterator[tuple[str, Any]]:
    """One word as fields of a Filter."""
    if _UUID.fullmatch(word):
        yield "ids", (UUID(word),)
        return
    split = _COLON.fullmatch(word)
    _must('"' not in _QUOTED.sub("", word), f'a quote is not closed in {word!r}: end it, or write it as \\" in quotes')
    _must(split is not None, f"{word!r} is no FIELD:VALUE; {_FIELDS_SAID}")
    assert split is not None
    name, value = split.groups()
    if name.startswith("payload."):
        yield "payload", ((_unquoted(name.removeprefix("payload.")), _unquoted(value)),)
        return
    _must(name in _READERS, _unknown(name))
    _must(value != "", f"{word!r} has no value: write it as {name}:{FIELDS[name].split(' ')[0]}")
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
    return tuple(f"status:{each} is now status:{OLD_STATUSES[each]}" for each in old)


def _ids(value: str) -> tuple[str, Any]:
    for each in value.split(","):
        _must(_UUID.fullmatch(each) is not None, f"{each!r} is no row id: it looks like {UUID(int=0)}")
    return "ids", tuple(dict.fromkeys(map(UUID, value.split(","))))


def _age(value: str) -> tuple[str, Any]:
    found = _AGE.fullmatch(value)
    _must(found is not None, f"age:{value} is no age: write age:>1h or age:<5m, in s, m, h, d or w")
    assert found is not None
    sign, n, unit = found.groups()
    return "older_seconds" if sign == ">" else "newer_seconds", float(n) * UNITS[unit]


def _attempts(value: str) -> tuple[str, Any]:
    found = _ATTEMPTS.fullmatch(value)
    _must(
        found is not None, f"attempts:{value} is no number: write attempts:3, attempts:>3, attempts:<3 or attempts:2..5"
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
    _must(low <= high, f"attempts:{value} asks for no number there is")
    return "attempts", (low, high)


def _ordered(value: str) -> tuple[str, Any]:
    _must(value in ("yes", "no"), f"ordered:{value} is neither yes nor no")
    return "ordered", value == "yes"


def _bucket(value: str) -> tuple[str, Any]:
    _must(
        value.isascii() and value.isdigit() and len(value) < 9, f"bucket:{value} is no number from 0 to {BUCKETS - 1}"
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


def _words(filter: Filter) -> Iterator[str]:
    if filter.statuses:
        yield f"status:{','.join(filter.statuses)}"
    for field in ("kind", "queue", "key", "worker", "error"):
        if (text := getattr(filter, field)) is not None:
            yield f"{field}:{_quoted(text)}"
    for name, value in filter.payload:
        yield f"payload.{_quoted(name, ':')}:{_quoted(value)}"
    if filter.attempts is not None:
        low, high = filter.attempts
        more = ">=0" if low == 0 else f">{low - 1}"
        yield f"attempts:{low if low == high else more if high == ATTEMPTS_MAX else f'{low}..{high}'}"
    if filter.older_seconds is not None:
        yield f"age:>{_said(filter.older_seconds)}"
    if filter.newer_seconds is not None:
        yield f"age:<{_said(filter.newer_seconds)}"
    if filter.ids:
        yield f"id:{','.join(map(str, filter.ids))}"
    if filter.idempotency_key is not None:
        yield f"idempotency:{_quoted(filter.idempotency_key)}"
    if filter.fingerprint is not None:
        yield f"fingerprint:{filter.fingerprint}"
    if filter.ordered is not None:
        yield f"ordered:{'yes' if filter.ordered else 'no'}"
    if filter.bucket is not None:
        yield f"bucket:{filter.bucket}"


def _quoted(text: str, besides: str = "") -> str:
    if _PLAIN.fullmatch(text) and not set(besides) & set(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unquoted(text: str) -> str:
    return _QUOTED.sub(lambda found: re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL), text)


def _said(seconds: float) -> str:
    unit = next((name for name, size in UNITS.items() if seconds and seconds % size == 0), "s")
    said = f"{Decimal(repr(seconds / UNITS[unit])):f}"
    return said.removesuffix(".0") + unit


def _check_text(text: str, least: int = 1) -> None:
    _must("\x00" not in text, f"{text!r} contains a NUL character, which Postgres cannot store: remove it")
    _must(not any("\ud800" <= each <= "\udfff" for each in text), f"{text!r} contains a lone surrogate: remove it")
    _must(least <= len(text) <= TEXT_MAX, f"a value of {len(text)} characters: give {least} to {TEXT_MAX}")


def _must(holds: bool, sentence: str) -> None:
    if not holds:
        raise BadFilter(sentence)


EVERYTHING = Filter()
