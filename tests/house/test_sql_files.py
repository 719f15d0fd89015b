"""The SQL: one file per verb and question, whose header, placeholders and Python function agree."""

from __future__ import annotations

import ast
import inspect
import re
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import UUID

from psycopg import Cursor

import tenure
from tenure import sql, verbs
from tenure.doctor import questions as doctor_questions
from tenure.model.declaration import Declaration
from tenure.model.filter import Filter
from tenure.model.journal import NewEvent
from tenure.model.rows import Lease, NewRow
from tenure.model.shares import Deal
from tenure.verbs import (
    batches,
    capacity,
    endpoints,
    fleet,
    flows,
    history,
    journal,
    kinds,
    lately,
    lifecycle,
    operators,
    outboxes,
    projections,
    questions,
    queues,
    rebuild,
    results,
    roles,
    schedules,
    search,
    sending,
    settle,
    shares,
    steps,
    why,
    witness,
)
from tenure.verbs.statement import Statement
from world import World

LEASE = Lease(UUID(int=1), "A", 1, 1 << 40, 0.0)
ID = UUID(int=1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NIGHTLY = schedules.Schedule("nightly", "0 0 * * *", "k")
DEAL = Deal(1, 0, ("a", "b"), 4)
PLANNED = schedules.Planned(
    "nightly", "0 0 * * *", "UTC", NOON, None, False, "once", "k", "{}", None, "default", None, 0, 5, False, NOON, NOON
)

# Every function that makes a Statement, called as it would be.
SAMPLES: dict[str, list[Statement[Any]]] = {
    "sending.enqueue": [
        verbs.enqueue(NewRow("k")),
        verbs.enqueue(NewRow("k", idempotency_key="k")),
        verbs.enqueue(NewRow("k", idempotency_key="k", again="after_end")),
        verbs.enqueue(NewRow("k", idempotency_key="k", again="after_start")),
    ],
    "sending.enqueue_written": [sending.enqueue_written(sending.row_params(NewRow("k")), "{}", None)],
    "results.family": [results.family(ID)],
    "results.left": [results.left(ID)],
    "results.ended": [results.ended([ID])],
    "results.await_end": [results.await_end(ID, 1.0)],
    "results.progress": [results.progress(LEASE, 0.5)],
    "batches.open_group": [batches.open_group([NewRow("k")])],
    "batches.group": [batches.group(1)],
    "batches.groups": [batches.groups()],
    "batches.members": [batches.members(1)],
    "batches.lost_members": [batches.lost_members()],
    "batches.tell_batches": [batches.tell_batches()],
    "sending.enqueue_many": [verbs.enqueue_many([NewRow("k", idempotency_key="k"), NewRow("k")])],
    "lately.note_backlog": [lately.note_backlog()],
    "lately.backlogs": [lately.backlogs()],
    "lately.queues_lately": [lately.queues_lately()],
    "lately.kinds_lately": [lately.kinds_lately()],
    "journal.journal_facts": [journal.journal_facts()],
    "journal.append": [journal.append("order:1", [NewEvent("order.paid")])],
    "journal.horizon": [journal.horizon()],
    "journal.read_between": [journal.read_between(0, 1)],
    "journal.read_after": [journal.read_after()],
    "journal.read_stream": [journal.read_stream("order:1")],
    "journal.erase_stream": [journal.erase_stream("order:1")],
    "journal.keep_journal": [journal.keep_journal()],
    "journal.retain_journal": [journal.retain_journal(86_400.0)],
    "journal.await_events": [journal.await_events("A", 5.0)],
    "projections.plan_projection": [projections.plan_projection("p", shards=1, like=None)],
    "projections.shard_state": [projections.shard_state("p", 0)],
    "projections.advance": [projections.advance("p", 0, 0, 1, LEASE)],
    "projections.stop_shard": [projections.stop_shard("p", 0, 0, 1, "boom", LEASE)],
    "projections.skip_event": [projections.skip_event("p", 0, 1, "boom")],
    "projections.skipped_again": [projections.skipped_again("p", 0)],
    "projections.was_skipped": [projections.was_skipped("p", 1)],
    "projections.reapplied": [projections.reapplied("p", 0, 1, LEASE)],
    "projections.reapply": [projections.reapply("p")],
    "projections.skip_stopped": [projections.skip_stopped("p")],
    "projections.pause_projection": [projections.pause_projection("p")],
    "projections.resume_projection": [projections.resume_projection("p")],
    "projections.forget_projection": [projections.forget_projection("p")],
    "projections.projections": [projections.projections()],
    "projections.enter_batch": [projections.enter_batch("p", 0, LEASE)],
    "rebuild.ask_rebuild": [rebuild.ask_rebuild("p")],
    "rebuild.open_shadow": [rebuild.open_shadow("p")],
    "rebuild.enter_shadow": [rebuild.enter_shadow("p")],
    "rebuild.tables_written": [rebuild.tables_written("p")],
    "rebuild.lock_checkpoints": [rebuild.lock_checkpoints("p")],
    "rebuild.swap_shadow": [rebuild.swap_shadow("p", 1, 0)],
    "lifecycle.claim": [verbs.claim("A", 1), verbs.claim("A", 1, buckets=[1, 2]), verbs.claim("A", 1, in_crowd=True)],
    "lifecycle.claim_ordered": [verbs.claim_ordered("A", 1)],
    "lifecycle.renew": [verbs.renew([LEASE])],
    "lifecycle.sweep": [verbs.sweep()],
    "lifecycle.sweep_pages": [verbs.sweep_pages()],
    "lifecycle.note_forgotten": [verbs.note_forgotten()],
    "lifecycle.cancel": [verbs.cancel([ID])],
    "lifecycle.redrive": [verbs.redrive([ID])],
    "lifecycle.archive": [verbs.archive()],
    "operators.erase": [operators.erase([ID])],
    "operators.erase_rest": [operators.erase_rest([ID], "k")],
    "queues.retain": [queues.retain("mail", 86_400.0)],
    "fleet.register": [fleet.register("A")],
    "fleet.heartbeat": [fleet.heartbeat("A")],
    "fleet.drain": [fleet.drain("A")],
    "fleet.sweep_workers": [fleet.sweep_workers()],
    "fleet.appear": [fleet.appear("A")],
    "fleet.set_waiting": [fleet.set_waiting("A", waiting=True)],
    "fleet.leave": [fleet.leave("A")],
    "fleet.take_turn": [fleet.take_turn("A")],
    "fleet.add_chore": [fleet.add_chore("shop:carts", 60.0)],
    "fleet.notice": [fleet.notice(grace_seconds=6)],
    "fleet.evict": [fleet.evict(grace_seconds=6)],
    "fleet.tell": [fleet.tell("ring")],
    "fleet.echo": [fleet.echo("channel", "note")],
    "fleet.vacuum_live": [fleet.vacuum_live()],
    "steps.record": [steps.record([steps.Recording(LEASE, 1, [steps.Step("", 0, "x", "done")])])],
    "steps.park": [steps.park([steps.Parking(LEASE, seconds=1.0)])],
    "steps.wake": [steps.wake([ID])],
    "steps.recall": [steps.recall([(ID, 1)])],
    "steps.signal": [steps.signal(ID, "shipped")],
    "steps.put_back": [steps.put_back(ID, [(-1, "shipped", "1")])],
    "steps.cancel_flow": [steps.cancel_flow(ID)],
    "flows.flow_state": [flows.flow_state(ID)],
    "flows.children": [flows.children(1)],
    "flows.flows": [flows.flows()],
    "flows.stuck_flows": [flows.stuck_flows()],
    "flows.flow_counts": [flows.flow_counts()],
    "flows.said": [flows.said(ID)],
    "steps.say": [steps.say([steps.Saying(LEASE, "a")])],
    "steps.anew": [steps.anew(LEASE, "{}")],
    "kinds.declare": [kinds.declare("A", [Declaration("k")])],
    "kinds.declared": [kinds.declared("k")],
    "lifecycle.fence": [verbs.fence("printer", 1)],
    "lifecycle.once": [verbs.once(LEASE, "receipt")],
    "lifecycle.holding": [verbs.holding(LEASE)],
    "lifecycle.guard": [verbs.guard(LEASE)],
    "lifecycle.enter": [verbs.enter(LEASE)],
    "lifecycle.within": [verbs.within()],
    "lifecycle.last_entered": [verbs.last_entered()],
    "settle.complete": [settle.complete([LEASE])],
    "settle.complete_all": [settle.complete_all([LEASE])],
    "settle.retry": [settle.retry([LEASE], ["boom"])],
    "settle.release": [settle.release([LEASE])],
    "settle.fail": [settle.fail([LEASE], ["boom"])],
    "settle.dead_letter": [settle.dead_letter([LEASE], ["boom"])],
    "questions.row": [questions.row(ID)],
    "questions.tape": [questions.tape(ID)],
    "questions.depth": [questions.depth()],
    "questions.oldest_runnable": [questions.oldest_runnable()],
    "questions.stuck": [questions.stuck()],
    "questions.blocked_keys": [questions.blocked_keys()],
    "questions.live_workers": [questions.live_workers()],
    "questions.lanes": [questions.lanes()],
    "questions.claimed": [questions.claimed("A", 1)],
    "questions.migrations": [questions.migrations()],
    "why.why": [why.why(ID)],
    "questions.board": [questions.board(["default"])],
    "questions.first_claim": [questions.first_claim()],
    "questions.channel": [questions.channel()],
    "questions.ping": [questions.ping()],
    "questions.live_pages": [questions.live_pages()],
    "questions.dead_share": [questions.dead_share()],
    "questions.at_work": [questions.at_work(["A"])],
    "questions.workers": [questions.workers()],
    "questions.bucket": [questions.bucket("k")],
    "questions.clock": [questions.clock()],
    "questions.ring_depth": [questions.ring_depth(["default"])],
    "questions.queue_depths": [questions.queue_depths()],
    "questions.queue_lags": [questions.queue_lags()],
    "questions.held_by_worker": [questions.held_by_worker()],
    "search.page": [search.page(Filter())],
    "search.ids": [search.ids(Filter())],
    "search.count": [search.count(Filter())],
    "search.statuses": [search.statuses(Filter())],
    "search.overview": [search.overview()],
    "search.dead_groups": [search.dead_groups()],
    "search.effects": [search.effects(ID)],
    "search.first_sent": [search.first_sent(ID)],
    "history.tally": [history.tally([], age_seconds=0.0)],
    "history.refuse": [history.refuse([])],
    "history.series": [history.series()],
    "history.lease_counts": [history.lease_counts()],
    "history.refusals": [history.refusals(ID)],
    "history.recent_refusals": [history.recent_refusals()],
    "history.membership": [history.membership()],
    "operators.retry_now": [operators.retry_now([ID])],
    "operators.release_held": [operators.release_held([ID])],
    "operators.delete": [operators.delete([ID])],
    "operators.free_key": [operators.free_key("default", "k")],
    "operators.postpone": [operators.postpone("default", "k", NOON)],
    "operators.drain_worker": [operators.drain_worker("A")],
    "operators.begin_audit": [operators.begin_audit("ann", "cli", "redrive", "kind:a")],
    "operators.mark": [operators.mark(1, 1, done=True)],
    "operators.lock_within": [operators.lock_within(0.5)],
    "operators.audit": [operators.audit()],
    "operators.lock_free": [operators.lock_free([ID])],
    "doctor.questions.server_facts": [doctor_questions.server_facts()],
    "doctor.questions.standbys": [doctor_questions.standbys()],
    "doctor.questions.transactions": [doctor_questions.transactions()],
    "doctor.questions.indexes": [doctor_questions.indexes()],
    "doctor.questions.hot_table": [doctor_questions.hot_table()],
    "doctor.questions.chores": [doctor_questions.chores()],
    "doctor.questions.archive_days": [doctor_questions.archive_days()],
    "doctor.questions.overdue": [doctor_questions.overdue()],
    "roles.grants": [roles.grants()],
    "endpoints.add_endpoint": [endpoints.add_endpoint(ID, "t", "https://a.example", ["*"], "s")],
    "endpoints.set_endpoint": [endpoints.set_endpoint(ID, "active", queue="webhooks")],
    "endpoints.rotate_secret": [endpoints.rotate_secret(ID, "s", 60.0)],
    "endpoints.send_webhook": [endpoints.send_webhook("t", "k", b"{}", queue="webhooks")],
    "endpoints.resend_webhook": [endpoints.resend_webhook(ID, [ID], queue="webhooks")],
    "endpoints.try_endpoint": [endpoints.try_endpoint(ID, queue="webhooks")],
    "endpoints.endpoint_states": [endpoints.endpoint_states()],
    "endpoints.endpoint_calls": [endpoints.endpoint_calls([ID])],
    "endpoints.begin_delivery": [endpoints.begin_delivery(LEASE, ID, ID)],
    "endpoints.log_delivery": [
        endpoints.log_delivery(LEASE, 1, ID, ID, status=200, ms=1, address=None, note=None, verdict="ok")
    ],
    "endpoints.begin_webhooks": [endpoints.begin_webhooks("webhooks")],
    "endpoints.keep_webhooks": [endpoints.keep_webhooks()],
    "endpoints.erase_tenant": [endpoints.erase_tenant("t")],
    "endpoints.endpoints": [endpoints.endpoints()],
    "endpoints.deliveries": [endpoints.deliveries(ID)],
    "endpoints.kept_webhooks": [endpoints.kept_webhooks(ID, NOON)],
    "outboxes.outboxes": [outboxes.outboxes()],
    "outboxes.unsent": [outboxes.unsent("default", "outbox:shop")],
    "outboxes.publisher": [outboxes.publisher()],
    "outboxes.originals": [outboxes.originals([ID])],
    "outboxes.replay": [outboxes.replay([ID], 1)],
    "capacity.backlog": [capacity.backlog()],
    "capacity.busy_queues": [capacity.busy_queues()],
    "queues.claim_limited": [queues.claim_limited("A", 1, "default")],
    "queues.pause": [queues.pause("default")],
    "queues.resume": [queues.resume("default")],
    "queues.declare_limits": [queues.declare_limits("default", max_running=1)],
    "queues.limit": [queues.limit("default", max_running=1)],
    "queues.queues": [queues.queues()],
    "schedules.plan": [schedules.plan(NIGHTLY), schedules.plan(NIGHTLY).read([(NOON,)])],  # type: ignore[list-item]
    "schedules.tick": [schedules.tick(schedules.Due("nightly", "0 0 * * *", "UTC", "once", NOON, NOON), [NOON], NOON)],
    "questions.place": [questions.place()],
    "shares.shares": [shares.shares()],
    "shares.last_said": [shares.last_said("mail")],
    "shares.take_share": [shares.take_share("mail", DEAL, "a")],
    "shares.raise_share": [shares.raise_share("mail", DEAL)],
    "schedules.rest": [schedules.rest(PLANNED)],
    "schedules.unplan": [schedules.unplan("nightly")],
    "schedules.fire": [schedules.fire("nightly")],
    "schedules.pause_schedule": [schedules.pause_schedule("nightly")],
    "schedules.resume_schedule": [schedules.resume_schedule("nightly")],
    "schedules.schedules": [schedules.schedules()],
    "schedules.due_schedules": [schedules.due_schedules()],
    "witness.seal": [witness.seal()],
    "witness.forget_audit": [witness.forget_audit(86_400)],
    "witness.audit_links": [witness.audit_links(0)],
    "witness.audit_chain": [witness.audit_chain()],
    "witness.note_reading": [witness.note_reading("ann", "http", "export", "kind:k")],
    "witness.end_reading": [witness.end_reading(1, 1)],
    "witness.create_token": [
        witness.create_token("i", b"", name="ci", role="read", seconds=60.0, created_by="ann", queues=["q"])
    ],
    "witness.revoke_token": [witness.revoke_token("ci")],
    "witness.use_token": [witness.use_token("i", b"")],
    "witness.tokens": [witness.tokens()],
}
NO_STATEMENT = {"copy"}  # rows on the wire: postgres.copy and copy_async send it
NO_ROWS = {"vacuum_live"}  # cannot run inside a transaction, and answers nothing
NO_TABLE = {
    "copy",
    "tell",
    "echo",
    "channel",
    "ping",
    "clock",
    "bucket",
    "dead_share",
    "live_pages",
    "vacuum_live",
    "lock_within",
    "within",
    "last_entered",
}
# Their functions write.
NO_TABLE |= {"take_share", "raise_share"}  # functions that run as the owner
NO_TABLE |= {"enqueue", "tally", "note_backlog", "seal", "forget_audit", "note_reading", "end_reading"}

# Where SQL may stand in Python, and why.
SQL_IN_PYTHON = {
    "postgres/migrate.py": "asks whether there is a schema at all, before any file of ours could",
    "contrib/alembic.py": "the same by asyncpg, which takes a script only as a whole",
    "embedded": "makes the database in which the schema will live",
    "doctor": "tells people what to type, and runs none of it",
    "drills": "plays the user, whose tables and clock are not Tenure's",
    "testing": "plays the clock, and empties schemas by what the catalogue says",
    "demo": "plays the shop, and asks its database what a reader would",
}


def _followed(statement: Statement[Any]) -> list[Statement[Any]]:
    """The statement, and the further question it asks when the database takes nothing."""
    try:
        answer = statement.read([])
    except Exception:
        return [statement]
    return [statement, *(_followed(answer) if isinstance(answer, Statement) else [])]


STATEMENTS = [each for made in SAMPLES.values() for statement in made for each in _followed(statement)]
STATEMENTS += _followed(verbs.once(LEASE, "receipt").read([(False, False)]))  # type: ignore[arg-type]
BY_NAME = {statement.name: statement for statement in STATEMENTS}
NAMES = [*sql.names("verbs"), *sql.names("questions")]
FILES = sorted(Path(str(files(sql))).rglob("*.sql"))


def _code(text: str) -> str:
    return re.sub(r"--[^\n]*", "", text)


def _header(name: str, word: str) -> str:
    lines = [line.removeprefix(f"-- {word}:") for line in sql.text(name).splitlines() if line.startswith(f"-- {word}:")]
    return ", ".join(lines)


def _named(listing: str) -> list[str]:
    """The names of a header's list: what stands in brackets is for people."""
    return [part.split()[0] for part in re.sub(r"\([^)]*\)", "", listing).split(",") if part.strip()]


def _reads(name: str) -> set[str]:
    """What a file reads from or writes to, but for what it has made itself; a function with its bracket."""
    code = re.sub(r"'[^']*'", "''", _code(sql.text(name)))
    code = re.sub(r"extract\(\w+ FROM ", "extract(", code, flags=re.IGNORECASE)
    code = re.sub(r"FOR (?:NO KEY )?UPDATE\b( OF \w+)?|DO UPDATE\s+SET|FROM STDIN", "", code)
    made = set(re.findall(r"(\w+)(?:\s*\([\w, ]*\))? AS (?:MATERIALIZED )?\(", code))
    targets = re.findall(r"\b(?:FROM|JOIN|INTO|USING|UPDATE)\s+(?:LATERAL\s+)?([\w.]+)(\s*\()?", code)
    return {f"{target}(" if called else target for target, called in targets if target not in made} - {"LATERAL("}


def _qualified(target: str) -> bool:
    return target.startswith(("tenure.", "pg_catalog.")) or target in ("unnest(", "generate_series(")


def test_every_function_that_makes_a_statement_is_in_this_file() -> None:
    found = {
        f"{module.__name__.removeprefix('tenure.').removeprefix('verbs.')}.{name}"
        for module in (
            lifecycle,
            sending,
            settle,
            fleet,
            queues,
            schedules,
            questions,
            why,
            search,
            history,
            journal,
            kinds,
            operators,
            outboxes,
            projections,
            rebuild,
            witness,
            capacity,
            endpoints,
            roles,
            steps,
            flows,
            doctor_questions,
            batches,
            results,
            lately,
            shares,
        )
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
        and not name.startswith("_")
        and str(inspect.signature(function).return_annotation).startswith("Statement[")
    }
    assert found == set(SAMPLES)


def test_every_file_has_a_python_verb_and_every_verb_a_file() -> None:
    assert {statement.name for statement in STATEMENTS} == set(NAMES) - NO_STATEMENT


def test_every_file_begins_with_its_name_a_sentence_and_what_goes_in_and_out() -> None:
    wrong = []
    for name in NAMES:
        first, second, *_ = sql.text(name).splitlines()
        begins = re.fullmatch(rf"-- {name}: \S.{{9,}}", first) and second.startswith("-- in: ")
        if not (begins and _header(name, "in").strip() and _header(name, "out").strip()):
            wrong.append(name)
    assert not wrong


def test_header_text_and_python_agree_on_the_parameters() -> None:
    disagreeing = []
    for name in sorted(BY_NAME):
        used = sorted(set(sql.PARAMETER.findall(_code(sql.text(name)))))
        if not used == sorted(BY_NAME[name].params) == sorted(_named(_header(name, "in"))):
            disagreeing.append(name)
    assert not disagreeing


def test_no_comment_can_be_taken_for_a_parameter() -> None:
    comments = {name: "\n".join(re.findall(r"^\s*--.*", sql.text(name), re.MULTILINE)) for name in BY_NAME}
    assert not [name for name, said in comments.items() if sql.PARAMETER.findall(said)]


def test_as_many_columns_come_out_as_the_header_says(world: World) -> None:
    for name in sorted(BY_NAME.keys() - NO_ROWS):
        statement = BY_NAME[name]
        with world.conn.transaction(force_rollback=True):
            cursor = Cursor(world.conn)
            cursor.execute(sql.prepared(name, world.schema), statement.params, binary=True)
            assert cursor.description is not None
            assert len(cursor.description) == len(_named(_header(name, "out"))), name


def test_columns_are_named_one_by_one() -> None:
    star = re.compile(r"(SELECT|RETURNING|DISTINCT)\s+(\w+\.)?\*|,\s*\w+\.\*", re.IGNORECASE)
    assert not [name for name in NAMES if star.search(_code(sql.text(name)))]


def test_every_table_is_named_with_its_schema() -> None:
    reads = {name: _reads(name) for name in NAMES}
    assert {name for name in NAMES if not reads[name]} <= NO_TABLE
    assert not {name: bare for name in NAMES if (bare := {each for each in reads[name] if not _qualified(each)})}


def test_no_file_asks_for_the_time_of_its_transaction() -> None:
    times = re.compile(
        r"\b(now|transaction_timestamp)\s*\(|\bcurrent_(timestamp|date|time)\b|\blocaltime", re.IGNORECASE
    )
    assert not [path.name for path in FILES if times.search(_code(path.read_text()))]


def test_every_table_of_ours_is_named_with_its_schema_in_the_migrations() -> None:
    texts = {path.name: _code(path.read_text()) for path in FILES if path.parent.name == "migrations"}
    tables = set(re.findall(r"CREATE (?:TABLE|VIEW|SEQUENCE) tenure\.(\w+)", "\n".join(texts.values())))
    assert {"live", "archive", "dead", "inbox"} <= tables
    bare = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|ON|OF)\s+({'|'.join(tables)})\b")
    assert not {name: found for name, text in texts.items() if (found := bare.findall(text))}


def test_every_file_is_one_statement() -> None:
    assert not [name for name in NAMES if ";" in _code(sql.text(name))]


def test_python_has_no_sql_of_its_own() -> None:
    root = Path(tenure.__file__).parent
    statement = re.compile(
        r"\s*(SELECT\s|INSERT INTO\s|UPDATE\s+\S+\s.*SET\s|DELETE FROM\s|(CREATE|DROP|ALTER) [A-Z]"
        r"|COPY\s|WITH\s+\w+ AS|SET LOCAL)"
    )
    found = []
    for path in sorted(root.rglob("*.py")):
        where = path.relative_to(root)
        if str(where) in SQL_IN_PYTHON or where.parts[0] in SQL_IN_PYTHON:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and statement.match(node.value):
                found.append(f"{where}:{node.lineno}")
    assert not found


def test_the_search_for_sql_in_python_would_find_some() -> None:
    source = (Path(tenure.__file__).parent / "postgres/migrate.py").read_text()
    assert "SELECT pg_advisory_xact_lock" in source  # the exception is still one; else take it off the list


def test_what_is_sent_is_the_file_without_its_remarks_and_psycopg_remembers_it() -> None:
    """psycopg reads a statement of more than 4,096 bytes anew each time: 100 µs a batch for completions."""
    seldom = {"why", "erase", "erase_rest"}  # asked by people
    for name in [*sql.names("verbs"), *sql.names("questions")]:
        written, sent = sql.text(name), sql.prepared(name, "s" * 63).decode()
        for line in written.splitlines():
            assert line.partition("--")[0].count("'") % 2 == 0, f"{name}: a text holds -- or goes on in the next line"
        assert sent.startswith(f"-- {name}: "), name
        assert sent.count("--") == 1, name
        assert len(sent) <= 4_096 or name in seldom, f"{name} has {len(sent)} bytes"
