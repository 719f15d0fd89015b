"""Metrics of several inboxes as one text: each number has the label `inbox`, and who answers is a number, too."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
UP = "# HELP tenure_inbox_up 1 if this inbox answers, 0 if not.\n# TYPE tenure_inbox_up gauge\n"


def labelled(texts: Mapping[str, str | None]) -> str:
    """Each family once, with the samples of all inboxes; None is an inbox that does not answer."""
    families: dict[str, list[str]] = {}
    for inbox, text in texts.items():
        family: list[str] = []
        for line in (text or "").split("\n"):  # a name may have line breaks of other kinds
            if line.startswith("# HELP "):
                family = families.setdefault(line, [])
            elif line.startswith("#"):
                if line not in family:
                    family.append(line)
            elif found := _SAMPLE.match(line):
                name, labels, number = found.groups()
                family.append(f'{name}{{inbox="{inbox}"{"," if labels else ""}{labels or ""}}} {number}')
    told = "".join("\n".join([head, *lines, ""]) for head, lines in families.items())
    up = "".join(f'tenure_inbox_up{{inbox="{inbox}"}} {int(text is not None)}\n' for inbox, text in texts.items())
    return told + UP + up
