"""How a worker begins at its inboxes: it looks at all of them, side by side, before it writes to any."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from psycopg import OperationalError

from ..postgres.sqlstates import trouble_of
from .places import Places
from .post import LOOK_SECONDS, Post

Away = dict[Post, Exception]  # and why


def begin(posts: Sequence[Post], places: Places) -> Away:
    """Prepare every inbox; those that are away are waited for, unless all are.

    One that must be refused is, before anything is written anywhere, and its error says of which inbox it is.
    """
    away = _look(posts, places) if len(posts) > 1 else {}
    for post in posts:
        if post not in away and len(away) < len(posts):
            try:
                post.begin(LOOK_SECONDS) if len(posts) > 1 else post.begin()
            except Exception as error:
                away[post] = _if_away(post, error)
    if len(away) == len(posts):
        raise away[posts[0]]
    return away


def _look(posts: Sequence[Post], places: Places) -> Away:
    """Who is away; whoever must be refused is raised."""
    found: dict[Post, str | Exception] = {}

    def look(post: Post) -> None:
        try:
            found[post] = post.look()
        except Exception as error:
            found[post] = error

    threads = [threading.Thread(target=look, args=[post], name="tenure-look", daemon=True) for post in posts]
    by = time.monotonic() + LOOK_SECONDS
    for each in threads:
        each.start()
    for each in threads:
        each.join(max(0.0, by - time.monotonic()))
    silent = OperationalError(f"the database has not answered within {LOOK_SECONDS:g} s")
    seen = {post: found.get(post, silent) for post in posts}
    away = {post: _if_away(post, error) for post, error in seen.items() if isinstance(error, Exception)}
    for post, place in seen.items():
        if post in away:
            places.missed(post.terms.inbox)
        else:
            _check(post, places, str(place))
    return away


def _check(post: Post, places: Places, place: str) -> None:
    try:
        places.check(post.terms.inbox, place)
    except Exception as error:
        _if_away(post, error)


def _if_away(post: Post, error: Exception) -> Exception:
    """The error, with the name of the inbox; one that neither waiting nor another try mends is raised."""
    if post.terms.inbox:
        error.add_note(f"inbox {post.terms.inbox}")
    if trouble_of(error) == "bug":
        raise error
    return error
