"""`tenure completion`: the script that lets a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ..console.terminal import echo

HOW = {
    "bash": 'eval "$(tenure completion bash)"          # in ~/.bashrc',
    "zsh": 'eval "$(tenure completion zsh)"           # in ~/.zshrc',
    "fish": "tenure completion fish | source           # in ~/.config/fish/config.fish",
}


@click.command(epilog="\b\n" + "\n".join(HOW.values()))
@click.argument("shell", type=click.Choice(list(HOW)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, "tenure", "_TENURE_COMPLETE").source()
    # click's script for fish cuts a description at its first comma.
    echo(script.replace('string split "," $completion', 'string split -m 1 "," $completion'))
