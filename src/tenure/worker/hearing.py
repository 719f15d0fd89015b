"""What a claimer learns from what it hears: where there may be rows, and when to read the board."""

from __future__ import annotations

from .claim_rule import ClaimRule
from .claims import woken
from .news import Buckets, Note
from .shared import Shared
from .sleep import Sleep


def hear(news: Note | Buckets, rule: ClaimRule, sleep: Sleep, shared: Shared) -> None:
    """A note, or a change of the ring, after which anything may be ours."""
    if isinstance(news, Buckets):
        rule.own(news.ours)
        news = Note("queues")
    if news.text in ("", "queues"):
        sleep.look_now()
        if news.text:
            rule.look_again()
    elif rule.hears(news):
        rule.look_again(news.queue, news.ordered)
        sleep.note()
        woken(shared, "notify")
