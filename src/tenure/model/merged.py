"""The answers of several inboxes as one: lists are put together, counts added, and what differs is told for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# The lists that are told with the newest first, and the field that says how new: ids begin with their time.
NEWEST_FIRST = {
    "rows": "id",
    "flows": "id",
    "groups": "last_at",
    "audit": "at",
    "batches": "opened_at",
    "refusals": "at",
}
SUMMED = ("searched", "matched", "changed", "skipped", "total", "count", "n", "rows")
LATEST = ("at", "kinds_since")
Document = dict[str, Any]


def merged(documents: Mapping[str, Document], most: int | None = None) -> Document:
    """One document of the documents by inbox. Each entry of a list has its `inbox`, of which the newest stay."""
    names = list(dict.fromkeys(name for each in documents.values() for name in each))
    told: Document = {}
    apart: dict[str, Document] = {inbox: {} for inbox in documents}
    for name in names:
        values = {inbox: each[name] for inbox, each in documents.items() if name in each}
        whole, known = _together(name, values, most)
        if known:
            told[name] = whole
            continue
        for inbox, value in values.items():
            apart[inbox][name] = value
    if isinstance(told.get("done"), bool) and isinstance(told.get("rows"), list) and len(documents) > 1:
        _paged(told, documents, apart)
    if "backlog" in told:
        _slowest_first(told)
    for inbox, each in documents.items():
        if "action" in each:  # its number is one of this inbox
            apart[inbox] |= {name: each[name] for name in ("action", "done") if name in each}
    return {**told, "inboxes": {inbox: {"answers": True, **rest} for inbox, rest in apart.items()}}


def _together(name: str, values: Mapping[str, Any], most: int | None) -> tuple[Any, bool]:
    """The values as one, and whether that can be said."""
    every = list(values.values())
    if all(isinstance(each, list) for each in every):
        return _listed(name, values, most), True
    if all(_counts(each) for each in every):
        fields = dict.fromkeys(field for each in every for field in each)
        return {field: _sum(field, [each[field] for each in every if field in each]) for field in fields}, True
    if name in LATEST or name.endswith("_seconds"):
        return max((each for each in every if each is not None), default=None), True
    if name in ("changed", "more") and all(isinstance(each, bool) for each in every):
        return any(every), True
    if name in SUMMED and all(_is_number(each) for each in every):
        return sum(each for each in every if each is not None), True
    if name == "backlog":
        return _backlogs(every), True
    if name in ("done", "ok"):
        return all(every), True
    return every[0], all(each == every[0] for each in every)


def _listed(name: str, values: Mapping[str, Sequence[Any]], most: int | None) -> list[Any]:
    if name == "series":
        return _charted(values)
    every = [told_of(inbox, each) for inbox, some in values.items() for each in some]
    if (field := NEWEST_FIRST.get(name)) is None or not all(isinstance(e, dict) and field in e for e in every):
        return every
    return sorted(every, key=lambda each: str(each[field]), reverse=True)[:most]


def _charted(values: Mapping[str, Sequence[Any]]) -> list[Any]:
    """The points of a chart, each at its time: counts added, times of the slowest."""
    at: dict[str, list[Document]] = {}
    for points in values.values():
        for point in points:
            at.setdefault(point["at"], []).append(point)
    return [
        {"at": when, **{name: _sum(name, [p[name] for p in points]) for name in points[0] if name != "at"}}
        for when, points in sorted(at.items())
    ]


def _backlogs(every: Sequence[Document]) -> Document:
    """What was due at each time at which one of them counted, by queue; the longest first, all others last."""
    times = sorted({at for each in every for at in each["at"]})
    due: dict[str, dict[str, int]] = {}
    for each in every:
        for line in each["queues"]:
            known = due.setdefault(line["queue"], dict.fromkeys(times, 0))
            for at, n in zip(each["at"], line["due"], strict=True):
                known[at] += n
    names = sorted(due, key=lambda queue: (not queue, -sum(due[queue].values()), queue))
    return {**every[0], "at": times, "queues": [{"queue": name, "due": list(due[name].values())} for name in names]}


def _slowest_first(told: Document) -> None:
    """Queues with the longest wait first, and kinds with the longest run; what has none comes last."""
    for name, field in (("queues", "oldest_runnable_seconds"), ("kinds", "run_p95")):
        told[name].sort(key=lambda each: -1.0 if each[field] is None else each[field], reverse=True)


def told_of(inbox: str, entry: Any) -> Any:
    """An entry with the name of its inbox; a plain value stays what it is."""
    return {**entry, "inbox": inbox} if isinstance(entry, dict) else entry


def _counts(value: Any) -> bool:
    """Is it a number of rows with its `more`, or an object of nothing but such and numbers?"""
    return isinstance(value, dict) and bool(value) and all(_is_number(v) or _counts(v) for v in value.values())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or value is None


def _sum(name: str, values: Sequence[Any]) -> Any:
    """Of counts the sum; of times the longest: the age of the oldest, the slowest of all."""
    if any(isinstance(each, dict) for each in values):
        return _together("", dict(enumerate(values)), None)[0]  # type: ignore[arg-type]
    known = [each for each in values if each is not None]
    if known and all(isinstance(each, bool) for each in known):
        return any(known)
    if any(isinstance(each, float) for each in known) or name.endswith("seconds"):
        return max(known, default=None)
    return sum(known) if known else None


def _paged(told: Document, documents: Mapping[str, Document], apart: dict[str, Document]) -> None:
    """The page ends where the first of them stopped to look, or where it is full; what is older is on the next page."""
    rows = told["rows"]
    ends = [each["next"] for each in documents.values() if each["next"] is not None]
    if len(rows) < sum(len(each["rows"]) for each in documents.values()):
        ends.append(rows[-1]["id"])
    told["next"] = max(ends, default=None)
    told["rows"] = [row for row in rows if not ends or row["id"] >= told["next"]]
    told["done"] = told["done"] and not ends
    for rest in apart.values():
        rest.pop("next", None)
