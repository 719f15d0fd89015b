"""What is wrong with a limit, in the words of the command line."""

from __future__ import annotations

OPTIONS = {"max_running": "--max-running", "max_per_key": "--max-per-key", "rate_per_second": "--rate"}


def in_options(sentence: str) -> str:
    """The same sentence with options in place of arguments."""
    for name, option in OPTIONS.items():
        sentence = sentence.replace(f"{name}=", f"{option} ").replace(name, option)
    return sentence.replace("burst=", "--burst ").replace("or clear to", "or --clear to")
