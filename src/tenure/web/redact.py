"""Redaction: values of secret names are replaced in the JSON text itself, so that no other digit of it changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

NAMES = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "authorization",
    "cookie",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "credentials",
    "card",
    "card_number",
    "cvc",
    "cvv",
    "iban",
    "ssn",
)
STARS = '"***"'

# A string (with its colon, if it is a name), a bracket, or anything else that stands for itself.
_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:\s*)?|([\[{])|([\]}])|[^\s"\[\]{},:]+', re.DOTALL)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


class Redaction:
    """Knows which names are secret: one is when the words of a listed name stand in it side by side.

    `token` covers access_token and authToken, not tokens_used; `card` does not cover discard.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(dict.fromkeys(names))
        self._secret = {_words(name) for name in self.names} - {()}
        self._known: dict[str, bool] = {}

    def covers(self, name: str) -> bool:
        """Is this name secret?"""
        if name not in self._known:
            if len(self._known) > 10_000:
                self._known.clear()
            words = _words(name)
            self._known[name] = any(_stands_in(secret, words) for secret in self._secret)
        return self._known[name]

    def __call__(self, text: str) -> str:
        """The JSON text with the values of secret names replaced by "***"."""
        parts: list[str] = []
        kept_until, depth, from_ = 0, 0, None
        for token in _TOKEN.finditer(text):
            if from_ is None:
                if token[2] and self.covers(_name(token[1])):
                    from_, depth = token.end(), 0
                continue
            depth += bool(token[3]) - bool(token[4])
            if depth <= 0 and not token[2]:
                parts += [text[kept_until:from_], STARS]
                kept_until, from_ = token.end(), None
        rest = [text[kept_until:]] if from_ is None else [text[kept_until:from_], STARS]
        return "".join([*parts, *rest])


def _name(quoted: str) -> str:
    return str(json.loads(quoted, strict=False)) if "\\" in quoted else quoted[1:-1]


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORDS.findall(name))


def _stands_in(secret: tuple[str, ...], words: tuple[str, ...]) -> bool:
    return any(words[at : at + len(secret)] == secret for at in range(len(words) - len(secret) + 1))
