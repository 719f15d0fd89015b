"""The filter language: words that must all hold of a row, one language for command line, HTTP and dashboard."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from .filter_words import ASKABLE as ASKABLE
from .filter_words import ATTEMPTS_MAX as ATTEMPTS_MAX
from .filter_words import FIELDS as FIELDS
from .filter_words import STATUSES as STATUSES
from .filter_words import BadFilter as BadFilter
from .filter_words import in_unit, must, no_status, quoted, read
from .rows import BUCKETS

TEXT_MAX = 1000
IDS_MAX = 1000
WORDS_MAX = 100
LENGTH_MAX = 250_000
AGE_SECONDS_MAX = 3_155_760_000.0

HIDDEN = "…"
WORD = re.compile(r'(?:"(?:\\.|[^"\\])*"|[^\s"])+(?P<open>"\S*)?|"\S*', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_HEX = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What must hold of a row; None or empty matches every row. `str` writes the words, `parse` reads them again.

    A trailing `*` of kind, queue, key and worker stands for any end (`\\*` for the star itself). Ages count from
    created_at. A worker is the one that holds the row, or held it last. `hints` names each old word that was read and
    the word to write now ("status:held is now status:processing"); it changes nothing in what matches.
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
    hints: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    def __post_init__(self) -> None:
        for text in (self.kind, self.queue, self.key, self.worker, self.error, self.idempotency_key):
            if text is not None:
                _check_text(text)
        for name, value in self.payload:
            _check_text(name)
            _check_text(value, least=0)
        for status in self.statuses:
            must(status in ASKABLE, no_status(status))
        for seconds in (self.older_seconds, self.newer_seconds):
            known = seconds is None or (math.isfinite(seconds) and 0 <= seconds <= AGE_SECONDS_MAX)
            must(known, f"an age of {seconds} s must be between 0 s and 100 years")
        if self.attempts is not None:
            low, high = self.attempts
            must(0 <= low <= high <= ATTEMPTS_MAX, f"attempts from {low} to {high}: give the lower number first")
        if self.bucket is not None:
            must(0 <= self.bucket < BUCKETS, f"bucket {self.bucket} must be between 0 and {BUCKETS - 1}")
        if self.fingerprint is not None:
            looks = _HEX.fullmatch(self.fingerprint) is not None
            must(looks, f"fingerprint {self.fingerprint!r} must be 12 hex digits: `tenure dead` shows them")
        must(len(self.ids) <= IDS_MAX, f"{len(self.ids)} ids are too many: give {IDS_MAX} at most")

    def __str__(self) -> str:
        """The filter as words, always in the same order."""
        return " ".join(_words(self))

    def __bool__(self) -> bool:
        """False when every row matches."""
        return self != EVERYTHING


def without_content(filter: Filter) -> Filter:
    """The filter for a record that must not hold what it names: its texts of producers are left out, ids stay."""
    texts: dict[str, Any] = {
        name: HIDDEN for name in ("key", "error", "idempotency_key") if getattr(filter, name) is not None
    }
    return dataclasses.replace(filter, **texts, payload=tuple((name, HIDDEN) for name, _ in filter.payload))


def is_prefix(text: str) -> bool:
    """True when the text ends in a star: it matches everything that begins with it."""
    return text.endswith("*") and not text.endswith("\\*")


def literal(text: str) -> str:
    """The text itself: an escaped star at its end is a plain star."""
    return text[:-2] + "*" if text.endswith("\\*") else text


def parse(text: str) -> Filter:
    """The filter that these words describe; BadFilter names the word that is wrong."""
    must(len(text) <= LENGTH_MAX, f"a filter of {len(text)} characters is too long: give {LENGTH_MAX} at most")
    given: dict[str, Any] = {}
    # One word at a time: after one with an open quote, each word would be searched to the end of the text.
    for n, found in enumerate(WORD.finditer(text)):
        must(n < WORDS_MAX, f"a filter of more than {WORDS_MAX} words is too long: give fewer")
        word = found[0]
        try:
            for name, value in read(word):
                must(name not in given or name == "payload", f"{word!r} repeats a field: give each field once")
                Filter(**{name: value})
                given[name] = given.get(name, ()) + value if name == "payload" else value
        except BadFilter as bad:
            raise BadFilter(str(bad), word) from None
    return Filter(**given)


def _words(filter: Filter) -> Iterator[str]:
    if filter.statuses:
        yield f"status:{','.join(filter.statuses)}"
    for field in ("kind", "queue", "key", "worker", "error"):
        if (text := getattr(filter, field)) is not None:
            yield f"{field}:{quoted(text)}"
    for name, value in filter.payload:
        yield f"payload.{quoted(name, ':')}:{quoted(value)}"
    if filter.attempts is not None:
        low, high = filter.attempts
        more = ">=0" if low == 0 else f">{low - 1}"
        yield f"attempts:{low if low == high else more if high == ATTEMPTS_MAX else f'{low}..{high}'}"
    if filter.older_seconds is not None:
        yield f"age:>{in_unit(filter.older_seconds)}"
    if filter.newer_seconds is not None:
        yield f"age:<{in_unit(filter.newer_seconds)}"
    if filter.ids:
        yield f"id:{','.join(map(str, filter.ids))}"
    if filter.idempotency_key is not None:
        yield f"idempotency:{quoted(filter.idempotency_key)}"
    if filter.fingerprint is not None:
        yield f"fingerprint:{filter.fingerprint}"
    if filter.ordered is not None:
        yield f"ordered:{'yes' if filter.ordered else 'no'}"
    if filter.bucket is not None:
        yield f"bucket:{filter.bucket}"


def _check_text(text: str, least: int = 1) -> None:
    if "\x00" in text:
        raise BadFilter(f"{text!r} contains a NUL character, which Postgres cannot store: remove it")
    if _SURROGATE.search(text):
        raise BadFilter(f"{text!r} contains a lone surrogate: remove it")
    if not least <= len(text) <= TEXT_MAX:
        raise BadFilter(f"a value of {len(text)} characters: give {least} to {TEXT_MAX}")


EVERYTHING = Filter()
