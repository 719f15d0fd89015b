"""Examples for the help of commands: what people type, each with what it does. Tests hold them against the options."""

from __future__ import annotations

import click

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "audit": (
        ("audit -n 20", "what was done last, and by whom"),
        ("audit verify", "has any line been changed or taken out?"),
    ),
    "batch": (("batch 7", "how far it is, and which of its rows failed"),),
    "batches": (("batches -n 5", "the latest five"),),
    "cancel": (("cancel status:pending kind:reindex --dry-run", "count what would be cancelled"),),
    "completion": (("completion bash", "to be read by eval in ~/.bashrc"),),
    "dead": (("dead", "what ended badly, by kind and error"),),
    "delete": (("delete 'status:dead_letter age:>30d' --dry-run", "count what would be deleted"),),
    "demo": (("demo", "with keys in a terminal; without one, a tour with five proofs"),),
    "dev": (("dev app:inbox", "Postgres, a worker that reloads, the dashboard"),),
    "doctor": (("doctor --json", "for a monitor: exit code 1 if something is wrong"),),
    "drill": (("drill lease-race", "one race, forced, with its proof"),),
    "enqueue": (
        ("enqueue send_receipt '{\"order_id\": 9182}'", "as the handler has declared it"),
        ("enqueue report --at +1h", "in an hour"),
    ),
    "erase": (("erase key:customer:42 --dry-run", "count what would be forgotten of this customer"),),
    "flow": (
        ("flow show checkout:order:9182", "its steps, and what it waits for"),
        ("flow signal 01a1e7ef-aaca-7459-81d3-c5c58a2cb213 approval '{\"ok\": true}'", "what it waits for"),
    ),
    "flows": (("flows --stuck", "those that somebody should look at, and why"),),
    "health": (("health ready --url http://127.0.0.1:8901", "for a probe: 0 ready, 1 not ready, 69 nothing answers"),),
    "hooks": (
        ("hooks", "endpoints with their circuits and last answers"),
        ("hooks pause 01a1e7ef-aaca-7459-81d3-c5c58a2cb213 --reason 'they asked'", "hold its calls back"),
    ),
    "journal": (
        ("journal order:9182", "the events of one stream"),
        ("journal --after 4060 --limit 20", "of all streams, from this position on"),
    ),
    "migrate": (("migrate --check", "in CI: exit code 1 if a migration is missing"),),
    "new": (("new shop", "an app, its test, and the files to deploy it"),),
    "outbox": (("outbox", "how far each broker is behind"),),
    "pg": (
        ("pg status", "where it is, and who uses it"),
        ("pg psql", "a prompt in the database of this folder"),
    ),
    "projections": (
        ("projections", "how far each has read"),
        ("projections rebuild order_totals", "make its tables anew"),
    ),
    "queues": (
        ("queues limit mail --max-running 10 --rate 5", "across all workers"),
        ("queues pause mail", "start no more; what runs goes on"),
    ),
    "redrive": (('redrive status:dead_letter error:"timeout" --dry-run', "count what would run again"),),
    "release": (("release worker:w-7 --dry-run", "count what would be taken from a worker"),),
    "retry": (("retry kind:charge_card", "do not wait for the backoff"),),
    "ring": (("ring --key order:9182", "who serves this key"),),
    "row": (("row 01a1e7ef-aaca-7459-81d3-c5c58a2cb213", "who held it, and how each attempt ended"),),
    "rows": (
        ("rows status:dead_letter kind:send_receipt", "by a filter"),
        ("rows payload.order_id:9182 --json", "for a program"),
    ),
    "schedules": (
        ("schedules", "when each runs next"),
        ("schedules pause nightly", "until it is resumed"),
    ),
    "serve": (("serve --port 8080", "the dashboard and the HTTP API"),),
    "shards": (
        ("shards", "where ranges are at home, and what waits"),
        ("shards drain 2", "empty a node before it is removed"),
    ),
    "sql": (("sql claim", "the statement that takes rows"),),
    "tail": (("tail --filter lease_lost,leases_swept", "only these, until Ctrl-C"),),
    "tokens": (("tokens create ci --role operate --queue mail --expires 90d", "printed once"),),
    "top": (("top --once", "one screen, for a log or a ticket"),),
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
