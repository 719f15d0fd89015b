"""Commands offered for pasting: names from others are quoted, so that a shell takes each as one word."""

from __future__ import annotations

import shlex


def command(*words: str) -> str:
    """The command as a shell reads it back; a name that begins with a dash is not taken for an option."""
    at = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    return " ".join(map(quoted, [*words[:at], *(["--"] if at < len(words) else []), *words[at:]]))


def quoted(word: str) -> str:
    r"""One word for a shell, as it is if it can be; what a terminal cannot show is written like $'\n'."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(_escaped(each) for each in word) + "'"


def _escaped(each: str) -> str:
    if each in "'\\":
        return f"\\{each}"
    if each.isprintable():
        return each
    return "".join(f"\\x{byte:02x}" for byte in each.encode(errors="surrogateescape"))
