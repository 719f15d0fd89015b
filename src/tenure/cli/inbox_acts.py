"""An act over several inboxes: inbox by inbox, with the same act in every audit, and told for each."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..console.terminal import Said, echo, sentence
from ..errors import INTERRUPTED, NO
from ..model.filter import parse
from ..operator_verbs import ON_ROWS
from .asking import AGREED, confirm, outcome, rows
from .inbox_told import (
    ACT,
    JUDGING,
    Ask,
    Told,
    hedged,
    in_doubt,
    judged,
    leave,
    mistaken,
    of_inbox,
    side_by_side,
    tell_away,
    tell_in_doubt,
    why_away,
)  # fmt: skip

SUMMED = ("matched", "changed", "skipped")


def act_in_each(path: str, asks: Mapping[str, Ask], given: Mapping[str, Any]) -> None:
    """Do it in each that answers, one after the other; exit 75 if one is away, for it is still to be done there."""
    act, agreed = ACT.set(secrets.token_hex(4)), AGREED.set({})
    try:
        if path in ON_ROWS:
            _act_on_rows(path, asks, given)
        else:
            done = _one_by_one(asks)
            _tell(path, done, given, len(asks), list(asks)[len(done) :])
    finally:
        ACT.reset(act)
        AGREED.reset(agreed)


def _act_on_rows(verb: str, asks: Mapping[str, Ask], given: Mapping[str, Any]) -> None:
    """Count in all of them, ask once, then change those that were counted."""
    counted, away = judged(verb, side_by_side(asks, dry_run=True, as_json=True))
    found = {each.inbox: _facts(each) for each in counted}
    matched = {inbox: int(facts["matched"]) for inbox, facts in found.items()}
    filter = next(iter(found.values()))["filter"]
    total, by = sum(matched.values()), ", ".join(f"{inbox} {n:,}" for inbox, n in matched.items())
    echo(f"{verb}  {rows(total)}  {filter}  ({by})", err=given["as_json"])
    rest = verb == "erase" and bool(parse(filter).ids or parse(filter).idempotency_key)  # of rows that are gone
    doing = {
        inbox: partial(asks[inbox], yes=True, as_json=True, expect=None if given["yes"] else n)
        for inbox, n in matched.items()
        if n or rest or found[inbox].get("processing")  # what erase leaves is told, and is a no
    }
    if given["dry_run"] or not doing:
        _tell(verb, [*counted, *away], given, len(asks))
        return
    if total or rest:
        confirm(verb, total, given["yes"])
    done = _one_by_one(doing)
    _tell(verb, [*done, *away], given, len(asks), list(doing)[len(done) :], matched)


def _one_by_one(asks: Mapping[str, Ask]) -> list[Told]:
    """What each says, until somebody interrupts it."""
    done: list[Told] = []
    for ask in asks.values():
        if not done or done[-1].code != INTERRUPTED:
            done.append(ask())
    return done


def _tell(
    path: str,
    answers: Sequence[Told],
    given: Mapping[str, Any],
    of: int,
    not_begun: Sequence[str] = (),
    matched: Mapping[str, int] | None = None,
) -> None:
    """What was done in each; then who is away, where it was not begun, and what went wrong. `matched` was counted."""
    wrong = [each for each in answers if mistaken(each)]
    if not any(each.error is None for each in answers):
        wrong = []  # nobody says that it was done: the first says why
        _tell_doubts(answers, given, matched or {})
    here, away = judged(path, [each for each in answers if each not in wrong])
    here = list(hedged(path, here, away))
    if given["as_json"]:
        each = [{"inbox": told.inbox, **_facts(told)} for told in here]
        undone = {told.inbox: why_away(told) for told in (*wrong, *away)} | dict.fromkeys(not_begun, "not begun")
        _tell_document(each, undone, matched or {}, away)
    else:
        _tell_people(path, here)
        _tell_sum(_sums([_facts(told) for told in here] if path in ON_ROWS else []), len(here))
    tell_away(away, of)
    tell_in_doubt(away)
    if not_begun:
        sentence(f"not begun in {', '.join(not_begun)}", err=True)
    for told in wrong[1:]:
        sentence(f"{told.inbox} says: {why_away(told)}", err=True)
    if wrong:
        raise of_inbox(wrong[0])
    leave(path, here, away, acted=not given.get("check"))


def _tell_doubts(away: Sequence[Told], given: Mapping[str, Any], matched: Mapping[str, int]) -> None:
    """Where it may have been done, though nobody answers."""
    if given["as_json"] and any(map(in_doubt, away)):
        _tell_document([], {told.inbox: why_away(told) for told in away}, matched, away)
    tell_in_doubt(away)


def _tell_document(
    done: list[dict[str, Any]], undone: Mapping[str, str], matched: Mapping[str, int], away: Sequence[Told]
) -> None:
    """One document of all; what was counted where it was not done is in the sum, too."""
    doubted = {told.inbox for told in filter(in_doubt, away)}
    left = [
        {"inbox": inbox, "error": why}
        | ({"in_doubt": True} if inbox in doubted else {})
        | ({"matched": matched[inbox]} if inbox in matched else {})
        for inbox, why in undone.items()
    ]
    sums = _sums(done)
    if "matched" in sums:
        sums["matched"] += sum(matched.get(inbox, 0) for inbox in undone)
    echo(json.dumps({"schema": 1, "act": ACT.get(), **sums, "inboxes": done + left}, sort_keys=True))


def _sums(every: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many rows in all of them matched, were changed and were skipped, as far as they say."""
    told = [each for each in every if "verb" in each]
    return {name: sum(each.get(name, 0) for each in told) for name in SUMMED if any(name in each for each in told)}


def _tell_sum(sums: Mapping[str, int], of: int) -> None:
    """One line for all, with the name that the act has in every audit."""
    if "changed" in sums and of > 1:
        echo(f"in all  {rows(sums['changed'])} changed in {of} inboxes · cli:{ACT.get()} in every audit")


def _tell_people(path: str, here: Sequence[Told]) -> None:
    """A line for each with its name; a no of all of them once."""
    said = {told.inbox: _sentences(path, told) for told in here}
    first = said[here[0].inbox]
    if path not in JUDGING and all(told.code == NO and said[told.inbox] == first for told in here):
        for each in first:
            echo(each.text, err=each.err)
        return
    for inbox, every in said.items():
        for each in every:
            echo(f"{inbox}: {each.text.removeprefix('tenure: ')}", err=each.err)


def _sentences(path: str, told: Told) -> list[Said]:
    """What it said, for people; of an act on rows it is a document behind the number that was told for all."""
    if path not in ON_ROWS:
        return list(told.said)
    facts = _facts(told)
    done = [Said(outcome(facts), "interrupted" in facts)] if "verb" in facts else []
    counted = f"{path}  "
    return done + [each for each in told.said if each.err and not each.text.startswith(('{"', counted))]


def _facts(told: Told) -> dict[str, Any]:
    """The document that it printed; without one, what it said."""
    texts = [said.text for said in told.said if not said.err or said.text.startswith('{"')]  # interrupted, on stderr
    if not texts:
        return {"error": " ".join(said.text for said in told.said), "exit_code": told.code}
    found = json.loads(texts[-1])
    return {name: value for name, value in found.items() if name != "schema"}
