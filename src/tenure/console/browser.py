"""Opening a browser at a secret link, which must not be an argument: everybody can read those."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

PAGE = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={link}">
<title>Tenure</title>
<p>This page leads to <a href="{link}">the dashboard</a>.
"""


@contextmanager
def browsing(link: str, *, wanted: bool = True) -> Iterator[bool]:
    """Open a browser at the link if there is a screen; whether that was tried.

    The browser gets a file that leads to the link, in a private folder; both are removed when the block ends.
    """
    if not wanted or not _has_screen():
        yield False
        return
    with tempfile.TemporaryDirectory(prefix="tenure-", ignore_cleanup_errors=True) as folder:  # made with mode 0700
        file = Path(folder, "dashboard.html")
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as page:
            page.write(PAGE.format(link=escape(link)))
        # On a thread: it may be slow.
        threading.Thread(target=webbrowser.open, args=[file.as_uri()], daemon=True).start()
        yield True


def _has_screen() -> bool:
    return sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
