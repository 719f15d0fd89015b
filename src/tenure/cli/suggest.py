"""Groups and choices that answer an unknown word with the one that was probably meant."""

from __future__ import annotations

from typing import Any, NoReturn

import click

from ..console.terminal import echo
from ..other_words import hint


class Suggesting(click.Group):
    """A command with commands below it, as `tenure queues pause`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """An unknown command is refused with the one that was probably meant."""
        name, known = args[0], self.list_commands(ctx)
        if name == "help" and name not in known:
            self._help(ctx, args[1:])
        if name not in known and not name.startswith("-"):
            raise click.UsageError(self.unknown(ctx, name, known), ctx)
        return super().resolve_command(ctx, args)

    def _help(self, ctx: click.Context, words: list[str]) -> NoReturn:
        """`tenure help` is `tenure --help`, and `tenure help queues pause` is `tenure queues pause --help`."""
        shown: click.Command = self
        for word in words:
            assert isinstance(shown, click.Group)
            name, found, _ = shown.resolve_command(ctx, [word])
            assert found is not None
            shown, ctx = found, click.Context(found, parent=ctx, info_name=name)
            if not isinstance(shown, click.Group):
                break
        echo(shown.get_help(ctx))
        ctx.exit()

    def unknown(self, ctx: click.Context, name: str, known: list[str]) -> str:
        """The sentence about it."""
        lists = f"there are {', '.join(known)}" if ctx.parent else f"`{ctx.command_path} --help` lists them"
        return f"there is no command {name[:60]!r}: {hint(name, known, lists)}"


class Choice(click.Choice):  # type: ignore[type-arg]  # before click 8.2 it takes none
    """One of a few words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word; an unknown one is refused with the one that was probably meant."""
        words = [str(each) for each in self.choices]
        if value in words:
            return str(super().convert(value, param, ctx))
        lists = f"choose from {', '.join(words)}"
        raise click.UsageError(f"there is no {str(value)[:60]!r} here: {hint(str(value), words, lists)}", ctx)
