"""Metrics of several inboxes as one text: each number has the label `inbox`, and who answers is a number, too."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
UP = "# HELP tenure_inbox_up 1 if this inbox answers, 0 if not.\n# TYPE tenure_inbox_up gauge\n"


def labelled(texts: Mapping[str, str | None]) -> str:
    """Each family once, with the samples of all inboxes; None is an inbox that does not answer."""
    return joined(texts) + up({inbox: text is not None for inbox, text in texts.items()})


def joined(texts: Mapping[str, str | None]) -> str:
    """Each family once; what has no name for its inbox is of the whole process and gets no label."""
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
                pairs = ",".join(filter(None, [f'inbox="{inbox}"' if inbox else "", labels]))
                family.append(f"{name}{{{pairs}}} {number}" if pairs else line)
    return "".join("\n".join([head, *lines, ""]) for head, lines in families.items())


def up(answers: Mapping[str, bool]) -> str:
    """Which inboxes answer."""
    return UP + "".join(f'tenure_inbox_up{{inbox="{inbox}"}} {int(there)}\n' for inbox, there in answers.items())
