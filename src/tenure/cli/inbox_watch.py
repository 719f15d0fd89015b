"""Commands that watch several inboxes: events of all as they come, and one picture of all, again and again."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import click

from ..console.terminal import cleared, echo, sentence
from .inbox_answers import tell_as_one
from .inbox_told import Ask, Told, judged, leave, side_by_side, why_away


def watch_each(path: str, asks: Mapping[str, Ask], given: Mapping[str, Any]) -> None:
    """Until Ctrl-C, or until the command ends by itself."""
    with contextlib.suppress(KeyboardInterrupt):
        if path == "top":
            _pictures(asks, given)
        else:
            _streams(path, asks)


def _pictures(asks: Mapping[str, Ask], given: Mapping[str, Any]) -> None:
    while True:
        answers = side_by_side(asks, once=True)
        if sys.stdout.isatty() and not given["as_json"]:
            cleared()
        with contextlib.suppress(click.exceptions.Exit):
            tell_as_one("top", answers, given)
        if not given["as_json"]:
            echo()
        time.sleep(given["seconds"])


def _streams(path: str, asks: Mapping[str, Ask]) -> None:
    """Each prints by itself; the command ends when all have ended."""
    ended: list[Told] = []

    def follow(ask: Ask) -> None:
        ended.append(told := ask(kept=False))
        if told.error is not None:
            sentence(f"{told.inbox} says: {why_away(told)}", err=True)

    threads = [threading.Thread(target=follow, args=(ask,), daemon=True) for ask in asks.values()]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    here, away = judged(path, ended)
    leave(path, here, away, acted=False)
