"""What others call it, and our word: an unknown word is answered with the one that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

# Several words of ours for one of theirs: the first that exists where it was said. `workers drain` is two commands.
OTHER_WORDS: dict[str, tuple[str, ...]] = {
    "version": ("--version",),
    "jobs": ("rows",),
    "tasks": ("rows",),
    "messages": ("rows",),
    "job": ("row",),
    "task": ("row",),
    "message": ("row",),
    "requeue": ("redrive",),
    "replay": ("redrive",),
    "discard": ("delete", "remove"),
    "remove": ("delete",),
    "delete": ("remove",),
    "drop": ("delete", "remove"),
    "purge": ("delete",),
    "cron": ("schedules",),
    "dashboard": ("serve",),
    "web": ("serve",),
    "run": ("worker",),
    "unpause": ("resume", "queues resume"),
    "continue": ("resume", "queues resume"),
    "unblock": ("free", "queues free"),
    "start": ("resume", "worker"),
    "enable": ("resume",),
    "disable": ("pause",),
    "stop": ("pause", "drain", "workers drain"),
    "kill": ("drain", "workers drain, or cancel for rows"),
    "shutdown": ("drain", "stop", "workers drain"),
    "pause": ("queues pause",),
    "resume": ("queues resume",),
    "limit": ("queues limit",),
    "blocked": ("queues blocked",),
    "free": ("queues free",),
    "ready": ("runnable",),
    "due": ("runnable",),
    "queued": ("pending",),
    "enqueued": ("pending",),
    "new": ("pending",),
    "active": ("processing",),
    "claimed": ("processing",),
    "leased": ("processing",),
    "retrying": ("scheduled",),
    "future": ("scheduled",),
    "done": ("completed",),
    "success": ("completed",),
    "succeeded": ("completed",),
    "finished": ("completed",),
    "archived": ("completed",),
    "error": ("failed",),
    "errored": ("failed",),
    "drain": ("workers drain", "drain_worker"),
}


def meant(word: str, known: Iterable[str]) -> str | None:
    """The word of `known` that was probably meant: our word for it, else one that is spelled alike."""
    import difflib

    words = list(known)
    # A known word is one of ours here, whatever it means elsewhere; options are known everywhere.
    ours = (each for each in OTHER_WORDS.get(word, ()) if each.startswith("--") or each.split()[0] in words)
    if found := next(ours, None):
        return found
    # Spelled alike, but the opposite: `unpause` is not `pause`.
    alike = [each for each in difflib.get_close_matches(word, words, n=3) if word not in (f"un{each}", f"de{each}")]
    return alike[0] if alike else None


def hint(word: str, known: Iterable[str], otherwise: str) -> str:
    """The end of a sentence: `did you mean redrive?`, or where to look."""
    found = meant(word, known)
    return f"did you mean {found}?" if found else otherwise
