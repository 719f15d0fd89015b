"""Children of a flow: rows that are counted when they end. The last makes the parent due, which is parked meanwhile.

How they ended is recorded, as what a step returned: what the flow has seen once stays so, whether a child is redriven,
deleted or past its retention afterwards. Of many with large values only the failures are, and the values stay theirs;
of many failures the errors are cut short, or only how each ended is. The flow is told as much as is kept, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ...app.codec import Codec
from ...app.handler import Handler
from ...errors import BadSettings
from ...model.ended import OPEN, Ended, EndedRow
from ...model.rows import NewRow
from ...postgres.runner import run
from ...verbs.batches import open_group
from ...verbs.flows import children
from ...verbs.lifecycle import cancel
from ...verbs.results import ended
from ...verbs.steps import Step
from .core import ENDED, Core
from .divisions import Division
from .effects import Ask, Call, Doing
from .sealed_ends import Sealing
from .step_values import RESULT_BYTES_MAX
from .tries import DEFAULT
from .trouble import FlowCancelled, FlowLimit, StepFailed

CHILDREN_MAX = 100_000
NUMBERS = 3  # that one group takes: it is sent, it is waited for, its ends are recorded
ENDS = "ends"
NOT_WANTED = "another of its map has failed"
NOT_KEPT = "too many have failed to keep its error here: its row has it"
SHORT = 40  # characters of an error, where many have failed
LETTERS = {"f": "failed", "d": "dead_letter", "c": "cancelled", "n": "cancelled"}  # n: not wanted; a dot: completed
WAIT_SECONDS = 400 * 86_400.0


def rows_of(what: Any, inputs: Sequence[Any]) -> list[NewRow]:
    """A row for each item: its fields if it is a mapping, else the one field that the handler takes."""
    if len(inputs) > CHILDREN_MAX:
        raise FlowLimit(
            f"a map over {len(inputs)} inputs is too large, the most is {CHILDREN_MAX}: map over parts of them"
        )
    sender = what.using(unique=None) if isinstance(what, Handler) else what.child()  # a group has each of its rows
    signature = what.signature if isinstance(what, Handler) else what.newest.signature
    fields: tuple[str, ...] = signature.fields or ()
    if any(not isinstance(item, dict) for item in inputs) and not fields:
        raise BadSettings(f"{what!r} takes no named fields: give flow.map mappings of fields")
    return [sender.row(**(item if isinstance(item, dict) else {fields[0]: item})) for item in inputs]


def kind_of(what: Any) -> str:
    """The kind of the rows of a handler or workflow."""
    return str(what.kind if isinstance(what, Handler) else what.name)


def codec_of(what: Any) -> Codec | None:
    """What opens the values of a handler or workflow."""
    found: Codec | None = (what if isinstance(what, Handler) else what.handler).encryption.codec
    return found


def mapped_in_parts(
    core: Core,
    place: tuple[str, int],
    name: str,
    rows: list[NewRow],
    division: Division,
    schema: str,
    *,
    blocking: bool,
    stop: bool,
    codec: Codec | None,
) -> Doing:
    """Part after part; those behind a failure that stops the map are not sent."""
    (path, n), ends = place, list[Ended[Any]]()
    for i in range(division.parts):
        part = rows[i * division.size :][: division.size]
        if stop and any(map(_stops, ends)):
            ends += [Ended("cancelled", None, NOT_WANTED)] * len(part)
            continue
        at = (path, n + NUMBERS * i)
        terms: dict[str, Any] = {"blocking": blocking, "stop": stop, "codec": codec}
        ends += yield from mapped(core, at, name, part, schema, **terms, division=division.number)
    return ends


def _stops(end: Ended[Any]) -> bool:
    """Whether the rest is not wanted: one has failed; it may have been redriven before anybody looked."""
    return end.status in ("failed", "dead_letter") or NOT_WANTED in (end.error or "")


def called(core: Core, place: tuple[str, int], name: str, rows: list[NewRow], schema: str, **terms: Any) -> Doing:
    """One child: its value."""
    return one(name, (yield from mapped(core, place, name, rows, schema, stop=False, **terms)))


def mapped(
    core: Core,
    place: tuple[str, int],
    name: str,
    rows: list[NewRow],
    schema: str,
    *,
    blocking: bool,
    stop: bool,
    codec: Codec | None,
    division: int = 0,
) -> Doing:
    """Send these as one group, wait for its end, and read how each ended."""
    path, n = place
    parent = core.instance.id

    def send(tx: Any) -> int:
        return int(run(tx, open_group(rows, name=name, then_row=parent, stop_on_failure=stop), schema).id)

    async def send_async(tx: Any) -> int:
        return int((await run(tx, open_group(rows, name=name, then_row=parent, stop_on_failure=stop), schema)).id)

    function = send if blocking else send_async
    call = Call(path, n, name, function, (), {}, DEFAULT, None, fenced=True, args_hash=division)
    core.families[path, n] = None
    group = yield from core.step(call)
    core.reach(path, n + 1)
    try:
        if rows:
            yield from core.wait(path, n + 1, f"group:{group}", WAIT_SECONDS, None)
    except FlowCancelled:
        ids, _ = yield Ask(children(group))
        yield Ask(cancel(ids, reason="its flow was cancelled"))  # those that are flows undo what they did
        raise
    sealing = Sealing(codec, name, core.instance.id)
    ends = (yield from _ends(core, path, n + 2, group, sealing)) if rows else []
    if _failed(ends):
        core.failures.see(path, n + 2)
    core.families.pop((path, n), None)
    return ends


def _ends(core: Core, path: str, n: int, group: int, sealing: Sealing) -> Doing:
    """How each ended, as it was seen first; a redrive of the flow looks again at those that had not completed."""
    known = core.ask(path, n, ENDS)
    found = known.result if known is not None and known.state in ENDED else None
    if found and "ends" in (whole := msgspec.json.decode(found)):
        return [sealing.opened(Ended(*each)) for each in whole["ends"]]
    ids, over = yield Ask(children(group))
    if not over:  # one has failed, and the rest is not wanted
        yield Ask(cancel(ids, reason=NOT_WANTED))
    rows: list[EndedRow] = yield Ask(ended(ids))
    ends = [_ended(each, sealing) for each in rows]
    if found:
        return as_kept(found, ends)
    state, more = ("failed", core.failures.asked(path)) if _failed(ends) else ("done", {})
    text = kept([sealing.sealed(end, row) for end, row in zip(ends, rows, strict=True)], more)
    yield from core.write(Step(path, n, ENDS, state, result=text))
    return as_kept(text, ends)


def _failed(ends: Sequence[Ended[Any]]) -> bool:
    return any(end.status != "completed" for end in ends)


def kept(ends: Sequence[Ended[Any]], more: dict[str, Any]) -> str:
    """All of them; else those that did not complete, by their number; else these with short errors; else a letter each.

    How each of the most children ended can always be kept so: what the function does next depends on it.
    """
    forms: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: {"ends": ends},
        lambda: {"bad": _bad(ends)},
        lambda: {"bad": _bad([end._replace(error=_short(end.error)) for end in ends])},
        lambda: {"each": "".join(map(_letter, ends))},
    )
    texts = (msgspec.json.encode({**form(), **more}).decode() for form in forms)
    return next(text for text in texts if len(text.encode()) <= RESULT_BYTES_MAX)


def as_kept(text: str, ends: Sequence[Ended[Any]]) -> list[Ended[Any]]:
    """These as they were kept, with the values of those that completed: the same when they are kept and ever after."""
    found = msgspec.json.decode(text)
    if "each" in found:
        letters = zip(found["each"], ends, strict=True)
        return [_of_letter(letter) if letter in LETTERS else end for letter, end in letters]
    bad = found.get("bad", {})
    return [Ended(*bad[str(i)]) if str(i) in bad else end for i, end in enumerate(ends)]


def _bad(ends: Sequence[Ended[Any]]) -> dict[str, Any]:
    return {str(i): (end.status, None, end.error) for i, end in enumerate(ends) if end.status != "completed"}


def _short(error: str | None) -> str:
    """Short, and still saying that it was not wanted."""
    return NOT_WANTED if NOT_WANTED in (error or "") else (error or "")[:SHORT]


def _letter(end: Ended[Any]) -> str:
    if end.status == "completed":
        return "."
    return "n" if NOT_WANTED in (end.error or "") else end.status[0]


def _of_letter(letter: str) -> Ended[Any]:
    return Ended(LETTERS[letter], None, NOT_WANTED if letter == "n" else NOT_KEPT)  # type: ignore[arg-type]


def _ended(row: EndedRow, sealing: Sealing) -> Ended[Any]:
    if row.status == "unknown":
        return Ended("cancelled", None, "its row is gone: it was deleted, or its retention is over")
    if row.status in OPEN:  # a flow undoes what it did before it ends
        return Ended("cancelled", None, NOT_WANTED)
    return sealing.read(row)


def one(name: str, ends: list[Ended[Any]]) -> Any:
    """The value of a single child; StepFailed if it did not complete."""
    (end,) = ends
    if end.status != "completed":
        raise StepFailed(name, f"the job ended as {end.status}: {end.error}")
    return end.value
