"""Examples for the help of commands: what people type, each with what it does. Tests hold them against the options."""

from __future__ import annotations

import click

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "cancel": (("cancel status:pending kind:reindex --dry-run", "count what would be cancelled"),),
    "dead": (("dead", "what ended badly, by kind and error"),),
    "demo": (("demo", "with keys in a terminal; without one, a tour with five proofs"),),
    "dev": (("dev app:inbox", "Postgres, a worker that reloads, the dashboard"),),
    "doctor": (("doctor --json", "for a monitor: exit code 1 if something is wrong"),),
    "drill": (("drill lease-race", "one race, forced, with its proof"),),
    "enqueue": (
        ("enqueue send_receipt '{\"order_id\": 9182}'", "as the handler has declared it"),
        ("enqueue report --at +1h", "in an hour"),
    ),
    "migrate": (("migrate --check", "in CI: exit code 1 if a migration is missing"),),
    "new": (("new shop", "an app, its test, and the files to deploy it"),),
    "queues": (
        ("queues limit mail --max-running 10 --rate 5", "across all workers"),
        ("queues pause mail", "start no more; what runs goes on"),
    ),
    "redrive": (('redrive status:dead_letter error:"timeout" --dry-run', "count what would run again"),),
    "rows": (
        ("rows status:dead_letter kind:send_receipt", "by a filter"),
        ("rows payload.order_id:9182 --json", "for a program"),
    ),
    "serve": (("serve --port 8080", "the dashboard and the HTTP API"),),
    "why": (("why 01a1e7ef-aaca-7459-81d3-c5c58a2cb213", "what a row waits for"),),
    "worker": (
        ("worker app:inbox --slots 20", "all queues of the inbox"),
        ("worker app:inbox --queues mail=3,reports=1 --jobs", "two of them, with a line for each job"),
    ),
    "workers": (("workers", "who is alive, and what each holds"),),
}


def with_examples(name: str, command: click.Command) -> click.Command:
    """The command with its examples below its options."""
    found = EXAMPLES.get(name, ())
    if found and "Examples:" not in (command.epilog or ""):
        wide = max(len(words) for words, _ in found)
        lines = [f"  tenure {words:<{wide}}  # {what}" for words, what in found]
        told = "\n".join(["\b", "Examples:", *lines])
        command.epilog = f"{told}\n\n{command.epilog}" if command.epilog else told
    return command
