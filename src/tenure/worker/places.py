"""The inboxes that one process serves, and where each of them is."""

from __future__ import annotations

from collections.abc import Mapping


class Places:
    """Addresses by name."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self.urls = dict(urls)
