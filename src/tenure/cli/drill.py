"""`tenure drill`: play a drill on a real Postgres, with real processes, and print the proof."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .. import settings
from ..errors import NO, BadSettings
from ..other_words import hint
from .database import Database, opened
from .option_types import Number
from .suggest import Suggesting

if TYPE_CHECKING:
    from ..drills.stage.said import Said
    from ..drills.stage.scene import Drill, Scene
    from ..drills.stage.verdict import Verdict

F = TypeVar("F", bound=Callable[..., Any])

# Commands beside the drills, each in a module of its own: drill_failover.py, drill_explore.py, drill_tune.py.
OTHERS = ("failover", "explore", "tune")
# The values that a scene may let you set: in words, and the least and most seconds.
SETTABLE = {
    "lease_seconds": ("How long worker-A's lease is", 0.05, 60),
    "handler_seconds": ("How long a handler takes", 0, 5),
}
COUNTED = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight")


class Drills(Suggesting):
    """Every drill of the book is a command; so is `all`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which to read them."""
        del ctx
        from ..drills.scenes.book import BOOK

        return [*BOOK, "all", *_others()]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Made, or imported, on demand."""
        from ..drills.scenes.book import BOOK

        del ctx
        if name in _others():
            return _other(name)
        if name in BOOK:
            return _command_of(name, BOOK[name]())
        return all_drills if name == "all" else None

    def unknown(self, ctx: click.Context, name: str, known: list[str]) -> str:
        """The sentence about a drill that is none."""
        del ctx
        return f"there is no drill {name[:60]!r}: {hint(name, known, '`tenure drill` lists them')}"


@click.group("drill", cls=Drills, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Play a drill on a real Postgres, with real processes, and print the proof.

    A drill works in a throw-away schema (tenure_drill_ and eight letters) and touches nothing else. It drops the schema
    at the end, also after Ctrl-C. Its control is the same scene without one guard: it shows what the guard prevents.
    """
    if ctx.invoked_subcommand is None:
        _list()


def options(function: F) -> F:
    """--json and --on, on everything that plays scenes."""
    as_json = click.option("--json", "as_json", is_flag=True, help="One JSON object a line; the last is the verdict.")
    on = click.option("--on", "url", metavar="URL", help="The database to use [env: TENURE_DATABASE_URL; embedded].")
    return as_json(on(function))


def _command_of(name: str, drill: Drill) -> click.Command:
    """A drill as a command, with an option for each value that may be set; the lease race also takes --unfenced."""

    def play(control: bool, as_json: bool, url: str | None, verbose: bool, **props: float | None) -> None:
        if drill.missing:
            raise BadSettings(f"drill {name!r} cannot be played here: {drill.missing}")
        made = _with_props(drill, props)
        shown(chosen(made, control), made, url, as_json=as_json, verbose=verbose)

    spelled = ("--control", "--unfenced") if name == "lease-race" else ("--control",)
    without = f"The same without {drill.guard}." if drill.control else "This drill has no control."
    parts = [
        click.option("-v", "--verbose", is_flag=True, help="Print every event, internal ones too."),
        options,
        click.option(*spelled, is_flag=True, help=without),
    ]
    for prop in drill.scene.settable:
        words, least, most = SETTABLE[prop]
        words = f"{words} [{getattr(drill.scene.props, prop):g}]."
        parts.append(click.option(f"--{prop.replace('_', '-')}", type=Number(least, most), help=words))
    for part in parts:
        play = part(play)
    return click.command(name, short_help=drill.scene.title, help=_help(drill))(play)


def _with_props(drill: Drill, props: dict[str, float | None]) -> Drill:
    """The drill with the given values, and its control with the same."""
    control = drill.control.with_props(**props) if drill.control else None
    return replace(drill, scene=drill.scene.with_props(**props), control=control)


def _help(drill: Drill) -> str:
    without = f"\n\nThe control runs without {drill.guard}; it passes if that does harm." if drill.control else ""
    return f"{drill.scene.story}{without}\n\nExit 0 if every assertion holds, 1 if not."


def chosen(drill: Drill, control: bool) -> Scene:
    """The scene, or its control; a drill that has none says why."""
    if not control:
        return drill.scene
    if drill.control is None:
        raise click.UsageError(
            f"{drill.scene.name} has no control, because no guard of it can be left out: run it without --control"
        )
    return drill.control


def shown(scene: Scene, drill: Drill, url: str | None, *, as_json: bool, verbose: bool) -> None:
    """Play a scene, print it, and end the command with its verdict."""
    from ..console.terminal import echo
    from ..drills.stage.scene import perform
    from ..drills.teller import Json, Plain, Teller

    teller: Teller = Json() if as_json else Plain(scene, verbose=verbose)
    control, hired = scene is not drill.scene, []

    def tell(said: Said) -> None:
        teller.event(said)
        hired.extend([said] if said.event == "worker_hired" else [])

    with at(url) as database:
        if not as_json:
            echo(describe(database))
            echo(f"  {'control' if control else 'drill':<9}  {_title(scene, drill)}")
            echo()
        verdict = perform(database.url, scene, tell)
    teller.verdict(verdict)
    if not as_json:
        echo()
        for line in _closing(verdict, drill, len(hired), control=control):
            echo(f"   {line}")
    if not verdict.ok:
        raise click.exceptions.Exit(NO)


@contextmanager
def at(url: str | None) -> Iterator[Database]:
    """The database to play a drill on; refused where drills are forbidden, and cleaned up when a signal ends it."""
    from ..console.signals import endable

    settings.check_drills()
    with endable(), opened(url, None, "--on", leave_nothing=True, shared=True) as database:
        yield database


def _title(scene: Scene, drill: Drill) -> str:
    return scene.title if scene is drill.scene else f"{scene.title}, without {drill.guard}"


def _closing(verdict: Verdict, drill: Drill, processes: int, *, control: bool) -> list[str]:
    """What was shown, and the next command to type."""
    name, flag = drill.scene.name, " --control" if control else ""
    if not verdict.ok:
        return [f"The drill failed. Its lines as JSON, for a report:  tenure drill {name}{flag} --json"]
    run = f"{COUNTED[processes]} real process{'es' * (processes != 1)}, one real Postgres, {verdict.seconds:.1f} s."
    if control:
        return [f"{verdict.shown.capitalize()}. {run}", f"The same with {drill.guard}:  tenure drill {name}"]
    again = [f"The same without {drill.guard}:  tenure drill {name} --control"] if drill.control else []
    return [*again, f'{run} Run it on yours:  tenure drill {name} --on "$DATABASE_URL"']


@click.command("all", short_help="Every drill and every control, one line each.")
@options
def all_drills(as_json: bool, url: str | None) -> None:
    """Play every drill and every control, one after the other. Exit 1 if any of them failed."""
    from ..console.terminal import echo
    from ..drills.scenes.book import BOOK

    verdicts = []
    with at(url) as database:
        if not as_json:
            echo(f"{describe(database)}\n")
        for drill in (make() for make in BOOK.values()):
            if drill.missing:
                echo(f"   - {drill.scene.name:<22} left out: {drill.missing}", err=as_json)
                continue
            for scene in filter(None, (drill.scene, drill.control)):
                verdicts.append(_played(scene, database.url, as_json=as_json, control=scene is not drill.scene))
    passed = sum(verdict.ok for verdict in verdicts)
    if not as_json:
        seconds = sum(verdict.seconds for verdict in verdicts)
        echo(f"\n   {passed} of {len(verdicts)} ended as expected, {seconds:.0f} s in all.")
    if passed < len(verdicts):
        raise click.exceptions.Exit(NO)


def _played(scene: Scene, url: str, *, as_json: bool, control: bool) -> Verdict:
    """One line on how it ended, and one on each assertion that did not hold."""
    from ..console.terminal import echo, mark
    from ..drills.stage.scene import perform

    verdict = perform(url, scene, lambda _: None)
    if as_json:
        echo(json.dumps({"event": "verdict", "control": control, **verdict.fields()}))
        return verdict
    words = f"{scene.name}{' --control' if control else ''}"
    echo(f"   {mark(verdict.ok)} {words:<22} {verdict.seconds:5.1f} s   {verdict.shown if verdict.ok else ''}".rstrip())
    for wrong in (verdict.trouble, *(check.sentence for check in verdict.checks if not check.ok)):
        if wrong:
            echo(f"       failed: {wrong}")
    return verdict


def _list() -> None:
    """Every drill on a line: what it shows, and what its control does."""
    from ..console.terminal import echo
    from ..drills.scenes.book import BOOK

    for name, drill in ((name, make()) for name, make in BOOK.items()):
        control = f"--control: {drill.control.shows}" if drill.control else ""
        echo(f"  {name:<11}  {drill.scene.title:<23}  {drill.scene.shows:<23}  {control}".rstrip())
    echo(f"\n  {'all':<11}  every drill and every control, one line each")
    for name in _others():
        echo(f"  {name:<11}  {_other(name).get_short_help_str(90)}")
    echo('\n  Play one:  tenure drill crash      On your own database:  tenure drill crash --on "$DATABASE_URL"')


def _others() -> list[str]:
    return [name for name in OTHERS if importlib.util.find_spec(f"tenure.cli.drill_{name}")]


def _other(name: str) -> click.Command:
    command = importlib.import_module(f"tenure.cli.drill_{name}").command
    assert isinstance(command, click.Command)
    return command


def describe(database: Database) -> str:
    """A line about the Postgres: its version, how it was found, where its rows are; raises if it does not answer."""
    from .. import embedded, postgres

    if database.source == "embedded":
        folder = str(embedded.locate(embedded.home_root())[0]).replace(str(Path.home()), "~", 1)
        return f"  postgres   {database.words:<38}  {folder}"
    with postgres.connect(database.url, application_name="tenure drill") as conn:
        major, minor = divmod(conn.info.server_version, 10000)
        return (
            f"  postgres   {f'{major}.{minor}, given by {database.source}':<38}  {conn.info.dbname} on {conn.info.host}"
        )
