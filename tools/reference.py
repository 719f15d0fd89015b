"""Write the pages of docs/reference that are made of the code, so that they cannot drift from it: `make docs`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import verbs_reference

import tenure
from tenure import events
from tenure.app.author_hooks import Hooks
from tenure.app.handler import Handler
from tenure.cli import COMMANDS, PURPOSES
from tenure.cli import tenure as program
from tenure.cli.examples import EXAMPLES
from tenure.settings.known import DEFAULTS, KNOWN, NEVER_IN_FILES
from tenure.telemetry.family import Family
from tenure.telemetry.fleet_metrics import Fleet, fleet_families
from tenure.telemetry.metrics import Metrics, Reading

FOLDER = Path(__file__).resolve().parent.parent / "docs/reference"
MADE = "Made by `make docs` from"
_STARS: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def settings_page() -> str:
    """Every setting, what it means, its default, and whether a file may have it."""
    rows = [
        (
            f"`{name}`",
            f"`{name.removeprefix('TENURE_').lower()}`" if name not in NEVER_IN_FILES else "no",
            says,
            default,
        )
        for name, says in KNOWN.items()
        for default in [f"`{DEFAULTS[name]}`" if name in DEFAULTS else ""]
    ]
    return _page(
        "Settings",
        f"{MADE} `settings/known.py`. [The command line](../guides/cli.md#settings) says where a setting is looked for "
        "and in which order. `tenure doctor --settings` prints those in force.",
        [*_table(("variable", "in `tenure.toml`", "what it is", "default"), rows)],
    )


def events_page() -> str:
    """Every event with its level and fields."""
    kinds = sorted(_event_classes(), key=lambda kind: kind.name)
    rows = [
        (
            f"`{kind.name}`",
            f"`{kind.__name__}`",
            kind.level,
            ", ".join(f"`{each.name}`" for each in fields(kind)),
            _sentence(kind),
        )
        for kind in kinds
    ]
    return _page(
        "Events",
        f"{MADE} `tenure.events`. [Telemetry](../guides/telemetry.md) says how to subscribe. Events of level `debug` "
        "are those of every single job.",
        [*_table(("event", "class", "level", "fields", "when"), rows)],
    )


def _event_classes() -> list[type[events.Event]]:
    found = [each for each in vars(events).values() if isinstance(each, type) and issubclass(each, events.Event)]
    return [each for each in found if each is not events.Event]


def metrics_page() -> str:
    """Every metric of a worker and of the fleet."""
    reading = Reading(0, 0, 0, 0, "notify", {})
    of_worker = Metrics(lambda: reading).families()
    of_fleet = fleet_families(Fleet([], {}, {}, 0), set())
    return _page(
        "Metrics",
        f"{MADE} what is exported. [Telemetry](../guides/telemetry.md#metrics) says how each is counted.",
        [
            *("## Of a worker", "", "`tenure worker --health-port 9101` serves them at `/metrics`.", ""),
            *_table(("metric", "type", "labels", "what it is"), map(_metric, of_worker)),
            *("", "## Of the fleet", "", "`tenure serve` exports them once, at `/metrics`.", ""),
            *_table(("metric", "type", "labels", "what it is"), map(_metric, of_fleet)),
        ],
    )


def _metric(family: Family) -> tuple[str, ...]:
    return f"`{family.name}`", family.kind, ", ".join(f"`{label}`" for label in family.labels), family.says


def commands_page() -> str:
    """Every command with its options, in the order of `tenure --help`."""
    lines: list[str] = []
    context = click.Context(program, info_name="tenure")
    for purpose, names in PURPOSES.items():
        lines += [f"## {purpose}", ""]
        for name in names:
            command = program.get_command(context, name)
            assert command is not None
            lines += [*_command(command, f"tenure {name}", COMMANDS[name], context), ""]
            lines += _examples(name)
    return _page("Commands", f"{MADE} the commands themselves; `tenure help COMMAND` prints the same.", lines)


def _examples(name: str) -> list[str]:
    typed = EXAMPLES.get(name, ())
    wide = max((len(line) for line, _ in typed), default=0)
    lines = [f"$ tenure {line:<{wide}}    # {does}" for line, does in typed]
    return ["```console", *lines, "```", ""] if lines else []


def _command(command: click.Command, name: str, says: str, above: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name.split()[-1], parent=above)
    words = " ".join(command.collect_usage_pieces(context))
    yield from (f"### {name}", "", f"`{name} {words}`".replace(" `", "`"), "", _plain(command.help) or says)
    rows = [
        (f"`{', '.join(each.opts)}`", _plain(each.help)) for each in command.params if isinstance(each, click.Option)
    ]
    if rows:
        yield from ("", *_table(("option", "what it does"), rows))
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from ("", *_command(found, f"{name} {below}", "", context))


def python_page() -> str:
    """What `from tenure import …` offers, and the methods that people call."""
    lines: list[str] = []
    for name in sorted(tenure.__all__, key=str.lower):
        value = getattr(tenure, name)
        lines += [f"## {name}", "", *_object(name, value), ""]
    lines += ["## What a handler is", "", *_object("Handler", Handler), ""]
    lines += [
        "## What else an inbox has",
        "",
        "Around every attempt and every enqueue ([hooks](../guides/hooks.md)).",
        "",
    ]
    lines += _table(("member", "what it is"), _documented(Hooks))
    return _page("Python", f"{MADE} `tenure.__all__`. [Versions](versions.md#numbers) says what else is public.", lines)


def _object(name: str, value: Any) -> Iterator[str]:
    if not callable(value):
        yield f"`{name}`: {_sentence(type(value))}"
        return
    yield from (f"`{name}({_parameters(value)})`", "", _sentence(value))
    if rows := _documented(value):
        yield from ("", *_table(("member", "what it is"), rows))


def _documented(value: Any) -> list[tuple[str, ...]]:
    """Its methods and properties that say what they are for."""
    return [
        (f"`.{name}`" if isinstance(found, property) else f"`.{name}({_parameters(found)})`", _sentence(found))
        for name, found in sorted(_members(value).items())
        if not name.startswith("_") and (inspect.isfunction(found) or isinstance(found, property)) and found.__doc__
    ]


def _members(value: Any) -> dict[str, Any]:
    """What a class has of its own and from our other classes."""
    if not isinstance(value, type):
        return {}
    ours = [each for each in reversed(value.__mro__) if each.__module__.startswith("tenure.")]
    return {name: found for each in ours for name, found in vars(each).items()}


def _parameters(function: Callable[..., Any]) -> str:
    """The names alone: types are written another way in every version of Python."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ""
    words: list[str] = []
    for each in found:
        if each.kind is each.KEYWORD_ONLY and not any(word.startswith("*") for word in words):
            words.append("*")
        if each.name not in ("self", "cls"):
            words.append(_STARS.get(each.kind, "") + each.name)
    return ", ".join(word for word in words if not word.startswith("_"))


def _sentence(value: Any) -> str:
    """The first sentence that its author wrote of it, if any."""
    text = value.__doc__ or ""
    if isinstance(value, type) and re.match(rf"{value.__name__}\(", text):
        return ""  # made by dataclass
    return _plain(text.split("\n\n")[0])


def _plain(text: str | None) -> str:
    return re.sub(r"\s+", " ", (text or "").replace("\b", "")).strip()


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _page(title: str, preface: str, lines: Iterable[str]) -> str:
    return "\n".join([f"# {title}", "", preface, "", *lines]).rstrip() + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "events.md": events_page,
    "metrics.md": metrics_page,
    "python.md": python_page,
    "settings.md": settings_page,
    "verbs.md": verbs_reference.page,
}

if __name__ == "__main__":
    for page_name, made in PAGES.items():
        FOLDER.joinpath(page_name).write_text(made(), encoding="utf-8")
