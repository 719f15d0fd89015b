"""How the answers of several inboxes are printed: one table, one document, or a part for each."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..console.terminal import echo
from ..model.merged import merged, told_of
from .inbox_told import Told, hedged, judged, leave, tell_away, why_away
from .output import Lines, lines, remark

MORE = "there may be more: "
PAGED = ("rows",)  # what --before continues in all of them: their ids are in the order of time


def tell_as_one(path: str, answers: Sequence[Told], given: Mapping[str, Any]) -> None:
    """Print what they said, name who is away, and exit as all of them together would."""
    here, away = judged(path, answers)
    if given.get("as_objects"):
        for found in _newest(here, _most(given)):
            echo(json.dumps(found, sort_keys=True))
    elif given.get("as_json") or given.get("form") == "json" or given.get("as_document"):
        echo(json.dumps(_document(here, away, _most(given)), sort_keys=True))
    else:
        _tell_people(path, hedged(path, here, away), _most(given))
    tell_away(away, len(answers))
    leave(path, here, away, acted=False)


def _most(given: Mapping[str, Any]) -> int | None:
    return None if given.get("everything") else given.get("most") or given.get("n")


def _newest(here: Sequence[Told], most: int | None) -> list[Any]:
    """The rows of all, which they printed as JSON lines; their ids are in the order of time."""
    found = [told_of(each.inbox, json.loads(text)) for each in here for text in _texts(each)]
    return sorted(found, key=lambda row: str(row["id"]), reverse=True)[:most]


def _document(here: Sequence[Told], away: Sequence[Told], most: int | None) -> dict[str, Any]:
    documents = {each.inbox: json.loads(text) for each in here for text in _texts(each)[-1:]}
    whole = merged(documents, most)
    for each in away:
        whole["inboxes"][each.inbox] = {"answers": False, "error": why_away(each)}
    if len(documents) == 1:  # of one thing, which is there
        ((inbox, only),) = documents.items()
        whole |= {"inbox": inbox, **{name: value for name, value in only.items() if not isinstance(value, list)}}
    return whole


def _tell_people(path: str, here: Sequence[Told], most: int | None) -> None:
    parts = {each.inbox: [said.text for said in each.said if not said.err] for each in here}
    tables = {inbox: part for inbox, part in parts.items() if part}
    if tables and all(len(part) == 1 and isinstance(part[0], Lines) for part in tables.values()):
        cut = _tell_table({inbox: part[0] for inbox, part in tables.items()}, most)  # type: ignore[misc]
        _tell_remarks([each for each in here if parts[each.inbox]], cut if path in PAGED else "")
        return
    for inbox, part in tables.items():
        text = "\n".join(part)
        echo(f"inbox {inbox}\n{text}" if "\n" in text else f"{inbox}: {text}")
    _tell_remarks([each for each in here if parts[each.inbox] or not tables], "")


def _tell_table(tables: Mapping[str, Lines], most: int | None) -> str:
    """All lines with the name of their inbox behind the first cell; the id of the last, if there may be more."""
    head = next(iter(tables.values())).head
    found: list[tuple[Any, list[str]]] = [
        (each.newness[n] if each.newness else None, [line[0], inbox, *line[1:]])
        for inbox, each in tables.items()
        for n, line in enumerate(each.found)
    ]
    if all(newness is not None for newness, _ in found):
        found.sort(key=lambda each: each[0], reverse=True)
        shown = found[:most]
    else:
        shown = found
    echo(lines([head[0], "inbox", *head[1:]], [line for _, line in shown]))
    return shown[-1][1][0] if len(shown) < len(found) else ""


def _tell_remarks(of: Sequence[Told], cut: str) -> None:
    """What was said on stderr; what all of them say is told once."""
    said = [(each.inbox, said.text) for each in of for said in each.said if said.err]
    more = [text for _, text in said if text.startswith(MORE)]
    said = [(inbox, text) for inbox, text in said if text not in more]
    once = {text for _, text in said if len({inbox for inbox, each in said if each == text}) == len(of)}
    for text in dict.fromkeys(text for _, text in said if text in once):
        echo(text, err=True)
    for inbox, text in said:
        if text not in once:
            echo(f"{inbox}: {text}", err=True)
    if (cut or more) and sys.stderr.isatty():
        remark(f"{MORE}--before {cut}" if cut else more[0])


def _texts(answer: Told) -> list[str]:
    return [said.text for said in answer.said if not said.err]
