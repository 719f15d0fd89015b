"""Redaction: values of secret names are replaced in the JSON text, so that nothing else in it changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from unicodedata import normalize

from ..errors import BadSettings

# Written together (apikey), in humps (apiKey, APIKey), with any separator, and as plurals.
NAMES = (
    "password", "passwd", "passphrase", "passcode", "pass_word", "pwd", "pw", "secret", "secret_key", "token",
    "jwt", "bearer", "auth", "oauth", "authorization", "credential", "creds", "cookie", "session_id", "csrf",
    "xsrf", "api_key", "access_key", "private_key", "signing_key", "encryption_key", "ssh_key", "master_key",
    "session_key", "hmac_key", "license_key", "card", "card_number", "credit_card", "cc_number", "cvc", "cvv",
    "cvc2", "cvv2", "csc", "security_code", "iban", "account_number", "bank_account", "routing_number",
    "sort_code", "ssn", "social_security", "national_id", "passport", "tax_id", "driver_license", "pin",
    "pin_code", "otp", "totp", "mfa_code", "recovery_code", "backup_code", "verification_code", "mnemonic",
    "seed_phrase", "pem", "salt", "signature", "connection_string", "dsn", "database_url", "code_verifier",
    "webhook_url", "jsessionid", "phpsessid",
)  # fmt: skip
# At the end of a longer word, too: dbpassword, sessiontoken.
ENDINGS = ("password", "passwd", "passphrase", "secret", "token", "apikey")
STARS = '"***"'

# A string, with its colon if it is a name; the last one may be cut off. Else a bracket, or a plain value.
_STRING = r'("[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z))(\s*:\s*)?'
_STRINGS = re.compile(_STRING, re.DOTALL)
_TOKENS = re.compile(_STRING + r'|([\[{])|([\]}])|[^\s"\[\]{},:]+', re.DOTALL)
_RUNS = re.compile(r"[^\W\d_]+|\d+")


class Redaction:
    """Knows which names are secret: those that contain the words of a listed name side by side.

    `token` covers access_token, authToken and refresh_tokens, not tokens_used; `card` does not cover discard. Where the
    words stand together makes no difference: api_key covers apikey.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(dict.fromkeys(names))
        for name in self.names:
            if not _words(name):
                raise BadSettings(f"a name to redact must have a letter or a digit, {name!r} has none")
        words = {_words(name) for name in self.names}
        self._secret = {"".join(each) for each in words}
        self._first = {each[0] for each in words}
        self._endings = tuple(each for each in ENDINGS if each in self._secret)
        self._longest = max(map(len, self._secret), default=0)
        self._known: dict[str, bool] = {}

    def covers(self, name: str) -> bool:
        """Is this name secret?"""
        if name not in self._known:
            if len(self._known) > 10_000:
                self._known.clear()
            self._known[name] = self._is_secret(_words(name))
        return self._known[name]

    def _is_secret(self, words: tuple[str, ...]) -> bool:
        """Do words side by side make a secret name? At the end of the name the last one may be a plural."""
        for first in range(len(words)):
            joined = ""
            for at in range(first, len(words)):
                joined += words[at]
                if len(joined) > self._longest + 1:
                    break
                is_last = at == len(words) - 1
                if joined in self._secret or (is_last and joined.removesuffix("s") in self._secret):
                    return True
        return any(word.endswith(self._endings) for word in words) or (
            words[-1:] != () and (words[-1].removesuffix("s").endswith(self._endings))
        )

    def __call__(self, text: str) -> str:
        """The JSON text with the values of secret names replaced by "***", also where the text is cut off."""
        if self._is_harmless(text):
            return text
        parts: list[str] = []
        kept_until = 0
        while (from_ := self._next_secret(text, kept_until)) is not None:
            parts += [text[kept_until:from_], STARS]
            kept_until = _end_of_value(text, from_)
        return "".join([*parts, text[kept_until:]])

    def _is_harmless(self, text: str) -> bool:
        """A quick check: the text has no secret word and no escape that could hide one, as most payloads."""
        if not text.isascii() or "\\u" in text:
            return False
        folded = text.lower()
        return not any(word in folded for word in self._first)

    def _next_secret(self, text: str, at: int) -> int | None:
        """Where the value of the next secret name begins."""
        names = (found for found in _STRINGS.finditer(text, at) if found[2])
        return next((found.end() for found in names if self.covers(_name(found[1]))), None)


def _end_of_value(text: str, at: int) -> int:
    """Where the value that begins here ends: at its last bracket, or where the text is cut off."""
    depth = 0
    for token in _TOKENS.finditer(text, at):
        depth += bool(token[3]) - bool(token[4])
        if depth <= 0 and not token[2]:
            return token.end()
    return len(text)


def _name(quoted: str) -> str:
    return str(json.loads(quoted, strict=False)) if "\\" in quoted else quoted[1:-1]


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.casefold() for run in _RUNS.findall(normalize("NFKC", name)) for word in _humps(run))


def _humps(run: str) -> Iterator[str]:
    """api, Key of apiKey; API, Key of APIKey."""
    began = 0
    for at in range(1, len(run)):
        rises = run[at].isupper() and not run[at - 1].isupper()
        if rises or (run[at].isupper() and run[at + 1 : at + 2].islower()):
            yield run[began:at]
            began = at
    yield run[began:]
