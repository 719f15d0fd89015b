"""One meaning per word: what the glossary forbids is said nowhere that people read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

from house.words_said import Said, api, commands, docs, events, literals, messages, pages
from tenure.model.filter import STATUSES, parse
from tenure.model.outcome import Outcome

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "docs/reference/glossary.md").read_text()
ENTRIES = re.findall(r"^### (.+)$", GLOSSARY, re.MULTILINE)

# What must not be said, and the entry of the glossary that has the word for it.
FORBIDDEN = {
    r"\bitems?\b|\bmessages?\b(?! queue)": "row",
    r"\b(pending|scheduled|runnable|due|dead|queued|failed) jobs?\b|\benqueu\w+ (a|the|its|many)? ?jobs?\b": "row",
    r"\btasks?\b": "job",
    r"\b(first|second|third|last|next|each|every) (try|go)\b": "attempt",
    r"\b(fence|fencing) tokens?\b": "fence",
    r"\b(held|running) (rows?|ones)\b|\brows? (is|are) (held|running)\b": "processing",
    r"\bof \S+ are running\b|\brow (is )?not running\b": "processing",
    r"(?-i:^(Held|Running|Waiting|Waiting for time|Delayed|Dead)$)": "processing",
    r"\bstatus:(held|running|dead|waiting|delayed)(?!_)\b": "filter",
    r"\bwaiting (rows?|ones|jobs?)\b": "pending",
    r"\bwait(s|ing)? for (its|their|the) time\b|\bdelayed\b": "scheduled",
    r"\bready (rows?|to run)\b": "runnable",
    r"\bdead (rows?|ones|jobs?)\b": "dead letter",
    r"\b(answer|close)[sd]? (an|the|its) attempt\b": "settle",
    r"\bdiscard\w*\b|\b[Rr]emov(e|es|ed|ing) (the |these |those |all )?rows?\b(?! for good)": "delete",
    r"\brequeu\w*\b|\breplay\w* (a |the )?(rows?|dead letters?)\b": "redrive",
    r"\bshut(s|ting)? down\b": "drain",
    r"\b(desk|crew)\b|(?<!lease )(?<!lease_)(?<!Lease)\bkeepers?\b": "lease keeper",
    r"\b(empty|last|next) look\b|\blooks? of (its|their) own accord\b": "poll",
    r"\bclean(s|ed)? (up )?(the )?leases\b": "sweep",
    r"\brous(e|es|ed|ing)\b": "wake",
    r"\b(ordered|message|partition) groups?\b": "key",
    r"\b(1024|1,024) shards\b": "bucket",
}
# Not words of the glossary, but sentences that a reader must read twice.
RIDDLES = (
    r"\b(is|are) no (number|integer|text|name|id|age|date|time|path|url|json|list|filter|port|fingerprint|terminal)\b",
    r"\b(befall|befell|bespeak|heed)\w*\b",
    r"\bspoken for\b",
)
SAY = {pattern: f"see {entry!r} in the glossary" for pattern, entry in FORBIDDEN.items()}
SAY |= dict.fromkeys(RIDDLES, "say it in plain words: what must it be?")
SOURCES = (commands, api, pages, events, messages, docs)

# The same word in another sense: where (the beginning of a place), in which words, and why it may stand there.
ALLOWED = {
    ("docs/reference/glossary.md", ""): "it names the words that are not used",
    ("ARCHITECTURE.md", "django/ (app"): "Django's own word",
    ("CHANGELOG.md", "django-tasks"): "Django's own word",
    ("docs/guides/django.md", ""): "Django's own word",
    ("docs/reference/versions.md", "contrib.django.tasks"): "Django's own word",
    ("docs/guides/from_celery.md", ""): "Celery's own words, beside ours",
    ("docs/guides/from_procrastinate.md", ""): "procrastinate's own words, beside ours",
    ("docs/guides/from_rq.md", ""): "RQ's own words, beside ours",
    ("docs/guides/telemetry.md", "messaging.message"): "names of OpenTelemetry's conventions",
    ("docs/decisions/0005-rooms.md", "desk, line, lender"): "names that modules once had",
    ("docs/decisions/0005-rooms.md", "`worker/keeper`"): "names that modules once had",
    ("docs/guides/cli.md", "status:held is now"): "the hint itself",
    ("docs/reference/http.md", "status:held is now"): "the hint itself",
    ("CHANGELOG.md", "status:held"): "it says that old words still work",
    ("CHANGELOG.md", "Discard"): "it says which button has another name now",
}
# Other rooms still say these: (file or command, word). Take a line out once it has gone.
STILL_TO_GO = {
    ("docs/reference/verbs.md", "held rows"),
    ("src/tenure/drills/scenes/drain.py", "rows are held"),
    ("src/tenure/web/static/pages/drills/inbox.js", "next try"),
}


class Offender(NamedTuple):
    """A forbidden word with the text around it."""

    said: Said
    word: str
    instead: str

    @property
    def known(self) -> tuple[str, str]:
        """How STILL_TO_GO names it: no line numbers, they move."""
        return re.sub(r":\d+$", "", self.said.place), self.word.lower()

    def __str__(self) -> str:
        return f"{self.said.place}: {self.word!r}, {self.instead}: {self.said.text[:100]!r}"


@cache
def _said(texts: Callable[[], Iterator[Said]]) -> tuple[Said, ...]:
    return tuple(texts())


def _offenders(texts: Iterable[Said]) -> Iterator[Offender]:
    for said in texts:
        if any(said.place.startswith(place) and words in said.text for place, words in ALLOWED):
            continue
        for pattern, instead in SAY.items():
            for match in re.finditer(pattern, said.text, re.IGNORECASE):
                yield Offender(said, match[0], instead)


def test_the_glossary_has_each_word_once_and_in_order() -> None:
    assert sorted(set(ENTRIES)) == ENTRIES
    assert set(FORBIDDEN.values()) <= set(ENTRIES)


def test_the_glossary_has_every_status_outcome_and_thread() -> None:
    outcomes = {kind.__name__ for kind in get_args(Outcome)}
    assert outcomes == set(re.findall(r"`(\w+)`", _entry("outcome")))
    for status in STATUSES:
        assert f"`{status}`" in GLOSSARY or status in ENTRIES, status
    assert {"claimer", "lease keeper", "housekeeper", "watchdog"} <= set(ENTRIES)


def test_the_glossary_names_the_old_words_that_a_filter_still_takes() -> None:
    for olds, new in re.findall(r"^\| (`status:.+`) \| `(status:\w+)` \|$", GLOSSARY, re.MULTILINE):
        for old in re.findall(r"`(.+?)`", olds):
            (hint,) = parse(old).hints
            assert hint.partition(" (")[0] == f"{old} is now {new}"
            assert parse(old) == parse(new)


def _entry(word: str) -> str:
    return GLOSSARY.split(f"\n### {word}\n", 1)[1].split("\n### ", 1)[0]


@pytest.mark.parametrize("link", re.findall(r"\]\(#([\w-]+)\)", GLOSSARY))
def test_a_link_inside_the_glossary_leads_to_an_entry(link: str) -> None:
    assert link.replace("-", " ") in ENTRIES


@pytest.mark.parametrize("texts", SOURCES, ids=lambda texts: texts.__name__)
def test_nobody_is_told_a_word_that_the_glossary_forbids(texts: Callable[[], Iterator[Said]]) -> None:
    found = [str(offender) for offender in _offenders(_said(texts)) if offender.known not in STILL_TO_GO]
    assert not found, "\n" + "\n".join(found)


def test_what_is_still_to_go_is_still_there() -> None:
    there = {offender.known for texts in SOURCES for offender in _offenders(_said(texts))}
    assert not STILL_TO_GO - there, "gone by now: take it out of STILL_TO_GO"


def test_every_exception_is_still_needed() -> None:
    said = [each for texts in SOURCES for each in _said(texts)]
    unused = [key for key in ALLOWED if not any(s.place.startswith(key[0]) and key[1] in s.text for s in said)]
    assert not unused, "said nowhere by now: take it out of ALLOWED"


def test_a_forbidden_word_is_found_wherever_it_hides() -> None:
    """The control: each kind of text, with one offender in it."""
    code = """/** "held rows" in a comment */ const a = "Held"; // 'held rows'
    html`<p class="held" title="two held rows">${list.map((x) => html`<b>${x}</b> waiting rows`)} Discard</p>`;
    const b = /"held rows"/.test(c) ? `delayed by ${n}` : { d: "pending" };"""
    texts = [Said(f"page.js:{line}", text) for line, text in literals(code)]
    found = sorted(offender.word for offender in _offenders([*texts, Said("help", "3 is no number")]))
    assert found == ["Discard", "Held", "delayed", "held rows", "is no number", "waiting rows"]
