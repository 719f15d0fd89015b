"""Names: a module of the same name as another is the same idea on another floor, and says so here."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import tenure

ROOT = Path(tenure.__file__).parent

# The names that several modules bear, and the idea they share.
SHARED = {
    "app": "what a user's app is made of; web/app.py is the app that serves it, as Starlette calls it",
    "audit": "the audit: printed, and over HTTP",
    "batch": "a batch: sent, and printed",
    "batches": "batches: their verbs, printed, and over HTTP",
    "config": "what a worker is told, and doctor's look at it",
    "dead": "what ended badly: printed, and over HTTP",
    "demo": "the demo, and its command",
    "doctor": "doctor, and its command",
    "enqueue": "enqueue: from a terminal, and over HTTP",
    "errors": "what is raised, and what it means to the person at a terminal",
    "events": "what happened, and the stream of it over HTTP",
    "filter": "the filter, and how a command line says it",
    "fleet": "the fleet: its verbs, its events, and doctor's look at it",
    "flow": "the room of workflows, the Flow that their functions see, and the command for one",
    "flows": "flows: what is asked about them, how they are made, and printed",
    "health": "whether a worker is live and ready: its answer, and the command that asks",
    "handoff": "the handoff of ordered keys: decided, and done",
    "inbox": "the inbox, and the one that the workers of a Django project run",
    "inboxes": "several inboxes: at a terminal, and over HTTP",
    "hooks": "webhooks: their events, printed, and over HTTP",
    "journal": "the journal: its nouns, its verbs, what an application has of it, and printed",
    "lately": "what happened lately: asked, and over HTTP",
    "log": "logs: where they are, and where 0.1.0 had them",
    "migrate": "migrations, and their command",
    "operators": "what operators may do: the statements, and the commands",
    "driving": "who does what a core without I/O asks for: of a flow, of a shard",
    "outbox": "the outbox: the shape, its front, its events, printed, and over HTTP",
    "projection": "projections: their room, and the noun in it",
    "projections": "projections: their verbs, printed, and over HTTP",
    "questions": "what the database is asked: by everybody, and by doctor alone",
    "queues": "queues: their verbs, printed, and over HTTP",
    "relay": "the relay of an outbox, and the drill that kills it",
    "ring": "the ring: its rule, its drill, printed, and over HTTP",
    "rows": "rows: as nouns, printed, and over HTTP",
    "schedules": "schedules: their verbs, printed, and over HTTP",
    "serve": "the server, and its command",
    "server": "the Postgres server: our own, and doctor's look at any",
    "shards": "several inboxes: the rule who serves which, and those of a cluster, printed and over HTTP",
    "shapes": "the shapes, and doctor's look at them",
    "shares": "shares of a limit over several inboxes: the rule, and the verbs",
    "sql": "the SQL, and the command that prints it",
    "stage": "the stage of a drill, and the same over HTTP",
    "tail": "the events of the fleet as they come, and the command that prints them",
    "tokens": "web tokens: printed, and shown to the server",
    "why": "why a row runs or does not: the sentence, and its command",
    "witness": "what reading leaves behind: its statements, and the server that runs them",
    "worker": "the worker, and its command",
    "workers": "workers: printed, and over HTTP",
}


def test_a_name_is_borne_twice_only_for_the_same_idea() -> None:
    borne: dict[str, list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        named = path.parent if path.name == "__init__.py" else path
        if named != ROOT and path.name != "__main__.py":
            borne[named.stem].append(str(path.relative_to(ROOT)))
    twice = {name: paths for name, paths in borne.items() if len(paths) > 1}
    assert not {name: paths for name, paths in twice.items() if name not in SHARED}, "choose another name, or say why"
    assert not set(SHARED) - set(twice), "borne once by now: take it out"
