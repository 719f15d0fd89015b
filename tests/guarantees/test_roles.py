"""Postgres roles: each may do what its part needs, tried as a login of its own, and nothing else, tried one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.errors import InsufficientPrivilege, RaiseException

from crew import eventually, working
from tenure import operate, postgres, sql, verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.cli.migrate import command
from tenure.errors import IdempotencyConflict
from tenure.events import ChoreDone, ChoreFailed, JobCompleted
from tenure.model.filter import Filter
from tenure.model.rows import NewRow
from tenure.postgres import migrate
from tenure.verbs import fleet, operators, questions, queues, schedules, settle, steps, witness
from tenure.verbs.statement import Statement
from tenure.verbs.steps import Step
from world import World

ROLES = ("producer", "worker", "operator", "readonly")


class Cast:
    """A world with its four roles granted, and a login that is a member of each."""

    def __init__(self, world: World) -> None:
        self.world, self.prefix = world, f"r_{world.schema}"
        migrate.grant(world.conn, world.schema, self.prefix)
        for role in ROLES:
            world.sql(f"CREATE ROLE {self.prefix}_{role}_login LOGIN IN ROLE {self.prefix}_{role}")
        self._open: list[psycopg.Connection[Any]] = []
        self._asking: dict[str, psycopg.Connection[Any]] = {}

    def url(self, role: str) -> str:
        return psycopg.conninfo.make_conninfo(self.world.url, user=f"{self.prefix}_{role}_login")

    def connect(self, role: str) -> psycopg.Connection[tuple[Any, ...]]:
        conn = postgres.connect(self.url(role))
        conn.execute(f'SET search_path = "{self.world.schema}", public'.encode())
        self._open.append(conn)
        return conn

    def may(self, role: str, query: str) -> bool:
        """Whether the server lets this role run it; nothing of it stays."""
        if role not in self._asking:
            self._asking[role] = self.connect(role)
        conn = self._asking[role]
        with conn.transaction(force_rollback=True):
            try:
                if query.startswith("COPY"):
                    with conn.cursor().copy(query.encode()) as stream:
                        return not list(stream) if "TO STDOUT" in query else True
                conn.execute(query.encode())
            except InsufficientPrivilege:
                return False
        return True

    def close(self) -> None:
        for conn in self._open:
            conn.close()
        names = [f"{self.prefix}_{role}{login}" for role in ROLES for login in ("_login", "")]
        self.world.sql(f"DROP OWNED BY {', '.join(names)}")
        self.world.sql(f"DROP ROLE {', '.join(names)}")


@pytest.fixture
def cast(world: World) -> Iterator[Cast]:
    made = Cast(world)
    try:
        yield made
    finally:
        made.close()


# -- what is forbidden, one by one

READS = [
    "SELECT payload FROM inbox", "SELECT count(*) FROM live", "SELECT id FROM live", "SELECT payload FROM archive",
    "SELECT last_error FROM dead", "SELECT key FROM idempotency", "SELECT id FROM workers", "SELECT queue FROM queues",
    "SELECT payload FROM schedules", "SELECT error FROM attempts", "SELECT actor FROM audit", "TABLE permits",
    "COPY live (payload) TO STDOUT",
]  # fmt: skip
CLAIMS = [
    "UPDATE live SET lease_generation = lease_generation + 1", "UPDATE live SET fence_token = 1",
    "SELECT next_fence(0)", "SELECT nextval('fence_seq')", "SELECT claim_limited('default', 1, 'w', 1, 90, 0)",
]  # fmt: skip
ARMING = [  # what would make an old token good again, or end a row under another's
    "UPDATE live SET status = 'processing', claimed_by = 'w', claimed_at = clock_timestamp(), claim_id = 1",
    "UPDATE live SET lease_expires_at = 'infinity'",
    "UPDATE live SET claimed_by = 'me'",
    "UPDATE live SET attempts = 0",
    "SELECT end_attempts('{}', '{}', '{}', 'retried', '{}', '{}')",
    "INSERT INTO attempts SELECT FROM attempts",
]
CHANGES = [
    "UPDATE live SET payload = '{}'", "UPDATE live SET kind = 'k'", "UPDATE archive SET payload = '{}'",
    "UPDATE dead SET payload = '{}'", "UPDATE workers SET id = 'w'", "UPDATE idempotency SET key = 'k'",
    "UPDATE migrations SET checksum = 'x'", "DELETE FROM migrations",
    "INSERT INTO live (kind, payload, status) VALUES ('k', '{}', 'processing')",
    "INSERT INTO idempotency (key, row_id, content_hash) VALUES ('k', new_id(), '')",
    "UPDATE incarnation SET epoch = 99", "TRUNCATE live", "TRUNCATE archive",
    "DROP TABLE archive_rest", "DROP TABLE live",
    "CREATE TABLE mine (n int)", "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "ALTER TABLE live ADD COLUMN mine int", "CREATE INDEX mine ON live (kind)", "DROP FUNCTION enqueue_many",
    "ALTER FUNCTION keep_archive RESET search_path",
]  # fmt: skip
OPERATING = [
    "DELETE FROM dead", "UPDATE queues SET paused = false", "INSERT INTO queues (queue, paused) VALUES ('mail', true)",
    "UPDATE schedules SET paused = false", "DELETE FROM schedules", "DELETE FROM archive", "DELETE FROM attempts",
    "DELETE FROM idempotency", "UPDATE queues SET retention_seconds = 3600",
    "INSERT INTO audit (actor, via, verb, target) VALUES ('a', 'v', 'v', 't')", "UPDATE audit SET rows = 9",
]  # fmt: skip
KEEPING = [
    "SELECT keep_archive()", "SELECT keep_history()", "DELETE FROM workers", "UPDATE chores SET ran_at = 'infinity'",
    "INSERT INTO workers (id) VALUES ('w')",
]  # fmt: skip
FORGING = [
    "INSERT INTO audit (actor, via, verb, target, database_user) VALUES ('a', 'v', 'v', 't', 'somebody')",
    "INSERT INTO audit (actor, via, verb, target, at) VALUES ('a', 'v', 'v', 't', 'yesterday')",
    "UPDATE audit SET actor = 'somebody'", "DELETE FROM audit", "TRUNCATE audit",
    "UPDATE audit SET sealed = true", "DELETE FROM audit_links", "UPDATE audit_chain SET tip_seq = 0",
    "SELECT forget_audit('1 day')", "SELECT hash FROM tokens", "UPDATE tokens SET role = 'admin'",
    "INSERT INTO tokens (id, name, hash, role, created_by, expires_at) VALUES ('i', 'n', '', 'admin', 'a', 'infinity')",
]  # fmt: skip
ENDING = [
    "SELECT end_attempts('{}', '{}', '{}', 'retried', '{}', '{}')", "DELETE FROM live", "DELETE FROM heads",
    "DELETE FROM arrivals", "UPDATE heads SET run_to = NULL",
    "INSERT INTO dead SELECT FROM dead", "INSERT INTO archive SELECT FROM archive",
    "UPDATE live SET status = 'pending'",
    "UPDATE live SET available_at = clock_timestamp()", "UPDATE live SET cancel_asked = true", "DELETE FROM permits",
]  # fmt: skip
SENDING = [
    "SELECT enqueue('k', '{}')", "INSERT INTO live (kind, payload) VALUES ('k', '{}')",
    "COPY live (kind, payload) FROM STDIN",
    "SELECT enqueue_one('k', '{}', NULL, 'q', 0::smallint, NULL, 0, 5, false, false)",
    "SELECT enqueue_many('{k}', '{\"{}\"}', '{NULL}', '{q}', '{0}', '{NULL}', '{0}', '{NULL}', '{5}', '{f}', '{f}')",
]  # fmt: skip
MERELY_SENT = [
    "INSERT INTO live (kind, payload) VALUES ('k', '{}') RETURNING id",
    "INSERT INTO live (id, kind, payload) VALUES (new_id(), 'k', '{}')",
    "INSERT INTO live (kind, payload, idempotency_key) VALUES ('k', '{}', 'k')",
]
PARTITIONING = ["SELECT payload FROM archive_rest", "DELETE FROM archive_rest"]
EVENTS = [  # appended by the function alone; a partition is nobody's
    "INSERT INTO journal (version, stream, type, data) VALUES (1, 's', 't', '{}')", "UPDATE journal SET data = '{}'",
    "INSERT INTO journal_rest (version, stream, type, data) VALUES (1, 's', 't', '{}')", "DELETE FROM journal",
    "INSERT INTO journal_000000 (version, stream, type, data) VALUES (1, 's', 't', '{}')",
    "UPDATE streams SET version = 0", "SELECT nextval('journal_position')", "SELECT setval('journal_position', 9)",
]  # fmt: skip

FORBIDDEN = {
    "producer": [
        *READS, *CLAIMS, *CHANGES, *OPERATING, *KEEPING, *FORGING, *ENDING, *MERELY_SENT, *PARTITIONING, *EVENTS,
        "SELECT data FROM journal", "SELECT stream FROM streams", "SELECT read_after(0)", "SELECT erase_stream('s')",
    ],
    "worker": [
        *(each for each in CHANGES if each != "UPDATE incarnation SET epoch = 99"),
        "UPDATE live SET queue = 'q'", "UPDATE live SET max_attempts = 9", "UPDATE live SET headers = '{}'",
        "UPDATE live SET partition_key = 'k'", "UPDATE live SET idempotency_key = 'k'",
        *OPERATING, *FORGING, *MERELY_SENT[1:], *PARTITIONING, *EVENTS, "SELECT erase_stream('s')",
        "UPDATE journal_kept SET retention_seconds = 3600",
        "SELECT payload FROM archive", "SELECT key FROM idempotency",
        "SELECT actor FROM audit", "UPDATE queues SET max_running = 9", "UPDATE schedules SET paused = true",
        "UPDATE archive SET completed_at = clock_timestamp()", "UPDATE attempts SET outcome = 'retried'",
        "DELETE FROM tally", "DELETE FROM refusals", "DELETE FROM membership", "UPDATE refusals SET reason = ''",
    ],
    "operator": [
        *CLAIMS, *CHANGES, *KEEPING, *FORGING, PARTITIONING[1], *ARMING, *EVENTS, "DELETE FROM permits",
        "DELETE FROM tally",
    ],
    "readonly": [
        *CLAIMS, *CHANGES, *OPERATING, *KEEPING, *FORGING, *ENDING, *SENDING, *MERELY_SENT, PARTITIONING[1], *EVENTS,
        "SELECT append('s', 't', '{}')", "SELECT erase_stream('s')",
        "SELECT id FROM live FOR UPDATE", "SELECT id FROM live FOR KEY SHARE", "LOCK live IN EXCLUSIVE MODE",
        "UPDATE live SET available_at = available_at",
    ],
}  # fmt: skip


@pytest.mark.parametrize("role", ROLES)
def test_what_a_role_has_no_business_with_is_refused(cast: Cast, role: str) -> None:
    allowed = [query for query in FORBIDDEN[role] if cast.may(role, query)]
    assert not allowed


def test_the_same_statements_pass_where_they_belong(cast: Cast) -> None:
    """The control: what is refused above is refused for want of the right, not for another fault of the statement."""
    assert [query for query in READS if not cast.may("readonly", query)] == []
    assert [query for query in READS if not cast.may("operator", query)] == []
    assert [query for query in OPERATING if not cast.may("operator", query)] == []
    assert [query for query in CLAIMS if not cast.may("worker", query)] == []
    assert [query for query in KEEPING if not cast.may("worker", query)] == []
    assert [query for query in ARMING if not cast.may("worker", query)] == []
    for query in [*CHANGES[:8], *FORGING[:2]]:
        with cast.world.conn.transaction(force_rollback=True):
            cast.world.sql(query)


def test_nobody_else_gets_anything(cast: Cast) -> None:
    stranger = f"{cast.prefix}_stranger"
    cast.world.sql(f"CREATE ROLE {stranger} LOGIN")
    try:
        with psycopg.connect(psycopg.conninfo.make_conninfo(cast.world.url, user=stranger), autocommit=True) as conn:
            for query in ("SELECT {}.enqueue('k', '{{}}')", "TABLE {}.migrations", "SELECT {}.bucket('k')"):
                with pytest.raises(InsufficientPrivilege):
                    conn.execute(query.format(cast.world.schema).encode())
            cast.world.sql(f"GRANT USAGE ON SCHEMA {cast.world.schema} TO {stranger}")  # and still no function is open
            for query in ("SELECT {}.enqueue('k', '{{}}')", "SELECT {}.bucket('k')"):
                with pytest.raises(InsufficientPrivilege):
                    conn.execute(query.format(cast.world.schema).encode())
    finally:
        cast.world.sql(f"DROP OWNED BY {stranger}")
        cast.world.sql(f"DROP ROLE {stranger}")


# -- every verb and question, who may run it

SESSION = {"echo", "lock_within"}  # of one's own: no table of ours in them
CATALOG = {
    "at_work",
    "dead_share",
    "grants",
    "hot_table",
    "indexes",
    "live_pages",
    "place",
    "server_facts",
    "standbys",
    "tables_written",
    "transactions",
}  # Postgres shows those to everybody
# Whoever may enqueue may signal. A worker ends a cancelled flow by cancel, which tells sleepers as retry_now does.
SIGNALLERS = {"signal", "cancel_flow"}
PRODUCERS = SIGNALLERS | {
    "send_webhook",
    "append", "enqueue", "enqueue_again", "enqueue_keyed", "enqueue_many", "open_group", "copy", "migrations", "bucket",
    "enqueue_unique", "ping", "clock",
}  # fmt: skip
WORKERS = SIGNALLERS | {"record", "park", "put_back", "wake", "anew", "cancel", "retry_now"} | {
    "appear", "archive", "claim", "claim_in_crowd", "claim_limited", "claim_ordered", "complete", "copy",
    "dead_letter", "declare", "drain", "enqueue", "enqueue_again", "enqueue_keyed", "enqueue_many", "enter", "evict",
    "fail", "fence", "guard", "heartbeat", "holding", "leave",
    "fire", "notice", "once", "open_group", "plan", "progress",
    "register", "release", "renew", "retry", "sweep", "sweep_pages", "sweep_workers", "take_turn", "tell", "tick",
    "rest", "take_share", "raise_share", "say", "tell_batches", "vacuum_live", "set_waiting",
    "append", "await_events", "keep_journal", "plan_projection", "advance", "stop_shard", "skip_event",
    "reapplied", "reapply", "enter_batch", "open_shadow", "enter_shadow", "lock_checkpoints", "swap_shadow",
    "send_webhook", "begin_delivery", "log_delivery", "begin_webhooks", "keep_webhooks",
    "enqueue_unique", "declare_limits", "tally", "refuse", "drain_worker", "note_forgotten", "add_chore", "postpone",
    "note_backlog",
}  # fmt: skip
OPERATORS = SIGNALLERS | {"wake"} | {
    "append", "erase_stream", "retain_journal", "reapply", "skip_stopped", "pause_projection",
    "resume_projection", "forget_projection", "ask_rebuild", "enter_shadow",
    "replay", "send_webhook", "add_endpoint", "set_endpoint", "rotate_secret", "resend_webhook", "erase_tenant",
    "try_endpoint",
    "postpone",
    "begin_audit", "cancel", "copy", "delete", "drain_worker", "enqueue", "enqueue_again", "enqueue_unique",
    "enqueue_keyed", "enqueue_many", "erase", "erase_rest", "fire", "retain", "free_key", "limit", "lock_free", "mark",
    "open_group", "pause", "pause_schedule", "redrive", "release_held", "resume", "resume_schedule", "retry_now",
    "tell", "unplan", "take_share", "raise_share",
    "enter", "guard", "holding",  # they only read
}  # fmt: skip
WITNESSES = {"seal", "note_reading", "end_reading", "use_token"}  # what reading leaves behind
OPERATORS |= WITNESSES | {"await_end"}
READERS = {"tell", "enter", "holding", "await_end", "enter_shadow"} | WITNESSES
READERS |= {"fire"}  # only its plan, which is empty for the name NULL: see test_a_reader_fires_no_schedule
NO_PLAN = {"copy", "vacuum_live"}  # COPY and VACUUM have no plan to be asked for


def _refused(cast: Cast, role: str, names: list[str]) -> set[str]:
    """The files whose plan this role cannot even be given: a table or function in it is not open to it."""
    found = set()
    with cast.connect(role) as conn:
        for name in names:
            text = sql.prepared(name, cast.world.schema)
            params = dict.fromkeys(sql.PARAMETER.findall(sql.text(name)))
            try:
                with conn.transaction(force_rollback=True):
                    conn.execute(b"EXPLAIN " + text, params)
            except InsufficientPrivilege:
                found.add(name)
    return found


@pytest.mark.parametrize(
    ("role", "may"), [("producer", PRODUCERS), ("worker", WORKERS), ("operator", OPERATORS), ("readonly", READERS)]
)
def test_each_verb_is_open_to_those_whose_it_is(cast: Cast, role: str, may: set[str]) -> None:
    names = [name for name in sql.names("verbs") if name not in NO_PLAN]
    assert _refused(cast, role, names) == set(names) - may - SESSION


def test_every_question_is_open_to_readers_and_none_about_rows_to_producers(cast: Cast) -> None:
    names = sql.names("questions")
    assert _refused(cast, "readonly", names) == set()
    assert _refused(cast, "operator", names) == set()
    of_a_transaction = {"within", "last_entered"}
    assert set(names) - _refused(cast, "producer", names) <= PRODUCERS | CATALOG | {"declared"} | of_a_transaction
    asked_by_workers = {
        "board", "channel", "claimed", "clock", "dead_share", "due_schedules", "fenced_at", "first_claim", "lanes",
        "live_pages", "live_workers", "migrations", "ping", "place", "schedules", "shares", "standing", "horizon",
        "read_between", "read_after", "read_stream", "shard_state", "skipped_again", "was_skipped",
    }  # fmt: skip
    assert not asked_by_workers & _refused(cast, "worker", names)


def test_every_table_view_sequence_and_function_is_granted_to_somebody_or_to_nobody_on_purpose(cast: Cast) -> None:
    # triggers: they run with whatever fires them
    nobody = {
        "keep_audit",
        "note_arrivals",
        "note_change",
        "note_lane",
        "note_freed",
        "forget_limits",
        "note_membership",
        "refuse_row",
        "refuse_state",
        "refuse_idempotency_key",
        "refuse_line",
        "leave_mark",
        "refuse_event",
    }
    nobody |= {
        "live_seq_seq",
        "arrivals_id_seq",
        "lane_arrivals_id_seq",
        "audit_id_seq",
        "claims_id_seq",
        "refusals_id_seq",
        "membership_id_seq",
    }  # identities: the insert is enough
    nobody |= {"signals_n_seq", "said_n_seq", "steps_rest"}
    nobody |= {"groups_id_seq", "results_rest", "make_due", "follow"}  # an identity, a partition, and as below
    nobody |= {"content", "retentions", "days", "thin_day", "thinned"}  # called by functions that run as the owner
    nobody |= {"first_in_line"}  # as these
    nobody |= {"audit_words", "forget_audit"}  # the owner's
    nobody |= {
        "note",
        "wake_for",
        "wakes",
        "wakes_id_seq",
        "wake_at_commit",
    }  # only wake writes there, and it runs as the owner
    granted = cast.world.sql(
        f"""
        SELECT c.relname, bool_or(a.grantee::regrole::text LIKE '{cast.prefix}%%') FROM pg_class AS c
        LEFT JOIN pg_attribute AS t ON t.attrelid = c.oid
        LEFT JOIN LATERAL (
          SELECT grantee FROM aclexplode(c.relacl) UNION ALL SELECT grantee FROM aclexplode(t.attacl)) AS a ON true
        WHERE c.relnamespace = '{cast.world.schema}'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'S', 'm')
          AND c.relname !~ '^((archive|results|steps)_[0-9]{{8}}|journal_[0-9]{{6}})$'
        GROUP BY 1
        UNION ALL
        SELECT p.proname, bool_or(a.grantee::regrole::text LIKE '{cast.prefix}%%') FROM pg_proc AS p
        LEFT JOIN LATERAL aclexplode(p.proacl) AS a ON true
        WHERE p.pronamespace = '{cast.world.schema}'::regnamespace GROUP BY 1
        """.replace("%%", "%")
    )
    missing = {name for name, somebody in granted if not somebody} - nobody
    assert not missing, f"say in sql/roles.sql who may use {', '.join(sorted(missing))}"


def test_few_functions_run_as_the_owner_and_all_pin_their_search_path(cast: Cast) -> None:
    found = cast.world.sql(
        f"SELECT proname, proconfig FROM pg_proc WHERE pronamespace = '{cast.world.schema}'::regnamespace AND prosecdef"
    )
    triggers = {"note_arrivals", "note_change", "note_lane", "note_freed", "forget_limits"}
    triggers |= {"refuse_row", "refuse_idempotency_key"}
    of_roles = {
        "declared",
        "enqueue_one",
        "enqueue_keyed",
        "enqueue_many",
        "keep_archive",
        "keep_history",
        "take_back",
        "forget_keys",
        "enqueue_again",
        "keep_values",
        "keep_results",
    }
    of_roles |= {"enqueue_group", "count_ends", "count_again", "make_due", "follow"}
    of_roles |= {"append_events", "horizon", "keep_journal", "erase_stream", "plan_projection"}
    of_roles |= {"forget_projection", "skip_stopped", "resume_projection", "ask_rebuild"}
    of_roles |= {"anew", "signal", "stop_flow", "reopen", "keep_flows"}
    of_roles |= {"send_webhook", "rotate_secret", "begin_delivery", "begin_webhooks", "keep_webhooks"}
    of_roles |= {"endpoint_states"}
    of_roles |= {"enqueue_unique", "declare_limits", "take_share", "raise_share"}
    triggers |= {"leave_mark", "refuse_event"}
    of_notes = {"wake", "wake_for", "wake_at_commit"}
    of_reading = {"note_reading", "end_reading", "seal_audit", "use_token"}
    assert {name for name, _ in found} == of_roles | of_notes | of_reading | triggers
    assert all("search_path=pg_catalog, pg_temp" in config for _, config in found)


def test_only_an_operator_brings_a_dead_flow_back_to_undo_what_it_did(cast: Cast) -> None:
    world = cast.world
    ids = [
        world.enqueue("checkout", headers={"tenure-flow": "checkout"}, idempotency_key=f"flow {n}") for n in range(2)
    ]
    dead = world.claim_one()
    undoing = [Step("", 0, "pay", "done"), Step("undo", 0, "undo:pay", "failed"), Step("undone", 0, "undone", "begun")]
    world.run(steps.record([steps.Recording(dead, 1, undoing)]))
    world.run(settle.dead_letter([dead.lease], ["boom"]))
    for role in ("producer", "worker"):
        conn = cast.connect(role)
        for how in ({"row_id": dead.id}, {"row_id": None, "named": f"flow {ids.index(dead.id)}"}):
            assert postgres.run(conn, steps.cancel_flow(**how), world.schema) == (dead.id, "ended")
        (living,) = (id for id in ids if id != dead.id)
        assert postgres.run(conn, steps.cancel_flow(living), world.schema) == (living, "asked")
        assert not cast.may(role, f"SELECT reopen('{dead.id}', '{{}}')")
    assert world.status(dead.id) == "dead_letter"
    assert world.sql("SELECT state FROM steps WHERE path = 'undo'") == [("failed",)]
    operator = cast.connect("operator")
    assert postgres.run(operator, steps.cancel_flow(dead.id), world.schema) == (dead.id, "asked")
    assert world.status(dead.id) == "pending"
    assert world.sql("SELECT state FROM steps WHERE path = 'undo'") == [("retrying",)]


# -- what each is there for


def test_a_producer_enqueues_with_keys_and_by_the_thousand_and_cannot_read_it_back(cast: Cast) -> None:
    conn, schema = cast.connect("producer"), cast.world.schema
    migrate.require(conn, schema)
    first = postgres.run(conn, verbs.enqueue(NewRow("k", {"a": 1}, idempotency_key="once")), schema)
    again = postgres.run(conn, verbs.enqueue(NewRow("k", {"a": 1}, idempotency_key="once")), schema)
    assert (first.outcome, again.outcome, again.id) == ("enqueued", "duplicate", first.id)
    with pytest.raises(IdempotencyConflict):
        postgres.run(conn, verbs.enqueue(NewRow("k", {"a": 2}, idempotency_key="once")), schema)
    ((_, outcome),) = conn.execute(
        "SELECT row_id, outcome FROM enqueue('k', '{}', partition_key => 'order:1')"
    ).fetchall()
    assert outcome == "enqueued"
    assert postgres.copy(conn, (NewRow("k", {"n": n}, key=f"k{n}") for n in range(1000)), schema) == 1000
    assert cast.world.count("live") == 1002
    with pytest.raises(InsufficientPrivilege):
        postgres.run(conn, questions.row(first.id), schema)


def test_an_enqueue_of_a_producer_rolls_back_with_its_transaction(cast: Cast) -> None:
    conn = cast.connect("producer")
    with conn.transaction(force_rollback=True):
        postgres.run(conn, verbs.enqueue(NewRow("k", {}, idempotency_key="once")), cast.world.schema)
    assert (cast.world.count("live"), cast.world.count("idempotency")) == (0, 0)


def test_a_worker_does_all_its_work_as_one(cast: Cast) -> None:
    inbox, done = Inbox(), []

    @inbox.handler("send", key="order:{order_id}", ordered=True)
    async def send(job: Job, order_id: int) -> None:
        async with job.fenced() as tx:
            if await job.once(tx, "receipt"):
                done.append(order_id)

    @inbox.handler("boom")
    def boom(job: Job) -> None:
        raise RuntimeError("boom")

    inbox.schedule("often", "* * * * *", send, order_id=99)
    world = cast.world
    for n in range(20):
        world.enqueue("send", {"order_id": n}, key=f"order:{n}", ordered=True)
    world.enqueue("boom", max_attempts=1)
    world.run(queues.limit("slow", max_running=1, rate_per_second=50))
    world.enqueue("boom", queue="slow", max_attempts=1)
    world.sql("UPDATE chores SET ran_at = '-infinity'")
    with working(world, inbox, url=cast.url("worker"), queues={"default": 1.0, "slow": 1.0}) as hired:
        eventually(lambda: set(done) >= set(range(20)))
        eventually(lambda: world.count("dead") == 2)
        eventually(
            lambda: (
                {each.chore for each in hired.of(ChoreDone)} >= {"archive", "fleet", "leases", "schedules", "workers"}
            )
        )
        hired.stop()
    assert hired.exit_code == 0
    assert hired.of(ChoreFailed) == []
    assert world.count("workers") == 0


def test_a_worker_makes_the_partitions_of_the_coming_days_and_drops_those_past_retention(cast: Cast) -> None:
    world = cast.world
    ((last,),) = world.sql(
        f"""SELECT max(relname) FROM pg_class
            WHERE relnamespace = '{world.schema}'::regnamespace AND relname ~ '^archive_[0-9]{{8}}$'"""
    )
    world.sql(f"DROP TABLE {last}")
    world.sql("CREATE TABLE archive_20200101 PARTITION OF archive FOR VALUES FROM ('2020-01-01Z') TO ('2020-01-02Z')")
    made = postgres.run(cast.connect("worker"), verbs.archive(), world.schema)
    assert (made["partitions_made"], made["partitions_dropped"]) == (1, 1)
    with pytest.raises(InsufficientPrivilege):
        cast.connect("worker").execute(f"DROP TABLE {last}".encode())


def test_a_worker_gone_wrong_cannot_wipe_what_is_kept(cast: Cast) -> None:
    world, conn = cast.world, cast.connect("worker")
    world.enqueue(idempotency_key="k")
    world.complete(world.claim_one().lease)
    world.sql("INSERT INTO membership (worker, what) VALUES ('A', 'joined')")
    conn.execute("SELECT n FROM keep_archive('-10 days', '-10 days', 100000)")
    conn.execute("SELECT n FROM keep_history('-10 days', 100000)")
    assert [world.count(table) for table in ("archive", "idempotency", "membership")] == [1, 1, 1]
    world.sql("UPDATE membership SET at = at - interval '15 days'")
    assert postgres.run(conn, verbs.archive(), world.schema)["memberships_forgotten"] == 1


def test_a_worker_without_the_right_to_write_history_starts_and_leaves(cast: Cast) -> None:
    cast.world.sql(f"REVOKE INSERT ON membership FROM {cast.prefix}_worker")
    conn = cast.connect("worker")
    postgres.run(conn, fleet.register("A"), cast.world.schema)
    assert postgres.run(conn, fleet.leave("A"), cast.world.schema)
    assert cast.world.count("membership") == 0


def test_an_operator_raises_cancels_pauses_and_leaves_a_trace(cast: Cast) -> None:
    world, conn = cast.world, cast.connect("operator")

    def run(statement: Statement[Any]) -> Any:
        return postgres.run(conn, statement, world.schema)

    dead = world.enqueue(max_attempts=1, key="k", ordered=True, hold=True)
    world.fail(world.claim_ordered("A", 1)[0].lease)
    held = world.enqueue()
    job = world.claim_one("A")
    assert run(verbs.redrive([dead])) == [dead]
    assert run(verbs.cancel([dead, held]))
    assert (world.status(dead), world.row(held).cancel_asked) == ("cancelled", True)
    assert run(queues.pause("default"))
    run(queues.limit("default", max_running=3))
    assert run(queues.resume("default"))
    world.run(schedules.plan(schedules.Schedule("nightly", "0 0 * * *", "k")))
    assert run(schedules.pause_schedule("nightly"))
    assert run(schedules.unplan("nightly"))
    with pytest.raises(InsufficientPrivilege):
        run(verbs.claim("A", 1))
    assert world.complete(job.lease).standing == "applied"


def test_a_reader_fires_no_schedule(cast: Cast) -> None:
    cast.world.run(schedules.plan(schedules.Schedule("nightly", "0 0 * * *", "k")))
    with pytest.raises(InsufficientPrivilege):
        postgres.run(cast.connect("readonly"), schedules.fire("nightly"), cast.world.schema)
    assert postgres.run(cast.connect("operator"), schedules.fire("nightly"), cast.world.schema)
    assert cast.world.count("live") == 1


def test_an_operators_own_verbs_and_their_audit(cast: Cast) -> None:
    from tenure.verbs import operators

    world, conn = cast.world, cast.connect("operator")

    def run(statement: Statement[Any]) -> Any:
        return postgres.run(conn, statement, world.schema)

    late, held, old = world.enqueue(delay_seconds=3600), world.enqueue(), world.enqueue()
    world.claim("A", 2)
    world.run(settle.complete([world.claim_one("A").lease])) if world.status(old) == "pending" else None
    number = run(operators.begin_audit("ann", "cli", "retry", "status:scheduled", "why not"))
    assert run(operators.mark(number, 1, done=True))
    assert run(operators.retry_now([late])) == [late]
    assert run(operators.release_held([held])) == [held]
    assert set(run(operators.delete([late, held]))) == {late, held}
    ((user,),) = world.sql("SELECT database_user FROM audit")
    assert user == f"{cast.prefix}_operator_login"


def test_a_reader_sees_every_row_and_cannot_touch_it(cast: Cast) -> None:
    id = cast.world.enqueue(payload={"a": 1})
    conn = cast.connect("readonly")
    found = postgres.run(conn, questions.row(id), cast.world.schema)
    assert found is not None
    assert found.payload == '{"a": 1}'
    assert postgres.run(conn, questions.why(id), cast.world.schema)
    with pytest.raises(InsufficientPrivilege):
        postgres.run(conn, verbs.cancel([id]), cast.world.schema)


# -- the owner's rights cannot be borrowed


def _trap(cast: Cast, conn: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    """Put a function of our own where enqueue_keyed expects the server's, and see as whom it is run."""
    evil = f"evil_{cast.world.schema}"
    conn.execute(f"SET search_path = {evil}, pg_catalog".encode())
    postgres.run(conn, verbs.enqueue(NewRow("k", {}, idempotency_key=str(uuid4()))), cast.world.schema)
    return conn.execute(f"SELECT as_whom FROM {evil}.seen".encode()).fetchall()


def test_a_function_of_the_callers_own_is_not_run_as_the_owner(cast: Cast) -> None:
    evil, login, world = f"evil_{cast.world.schema}", f"{cast.prefix}_producer_login", cast.world
    world.sql(f"CREATE SCHEMA {evil} AUTHORIZATION {login}")
    conn = cast.connect("producer")
    conn.execute(f"CREATE TABLE {evil}.seen (as_whom text)".encode())
    conn.execute(
        f"""CREATE FUNCTION {evil}.convert_to(text, name) RETURNS bytea LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO {evil}.seen VALUES (current_user); RETURN ''; END $$""".encode()
    )
    assert _trap(cast, conn) == []
    world.sql("ALTER FUNCTION enqueue_keyed RESET search_path")  # the control: unpinned, the trap springs
    assert _trap(cast, cast.connect("producer")) == [("tenure",)]


# -- granting


def test_granting_again_changes_nothing_and_takes_back_what_is_too_much(cast: Cast) -> None:
    def rights() -> list[tuple[Any, ...]]:
        return cast.world.sql(
            f"""SELECT relname, relacl::text FROM pg_class WHERE relnamespace = '{cast.world.schema}'::regnamespace
                UNION ALL
                SELECT proname, proacl::text FROM pg_proc WHERE pronamespace = '{cast.world.schema}'::regnamespace
                ORDER BY 1, 2"""
        )

    before = rights()
    cast.world.sql(f"GRANT ALL ON live, archive TO {cast.prefix}_producer")
    cast.world.sql("GRANT EXECUTE ON FUNCTION next_fence TO PUBLIC")
    migrate.grant(cast.world.conn, cast.world.schema, cast.prefix)
    assert rights() == before
    assert cast.may("producer", "SELECT enqueue('k', '{}')")
    assert not cast.may("producer", "SELECT payload FROM live")


def test_two_processes_that_grant_at_once_take_turns(cast: Cast) -> None:
    first, second = cast.world.connect(), cast.world.connect()
    with first.transaction():
        migrate.grant(first, cast.world.schema, cast.prefix)
        second.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            migrate.grant(second, cast.world.schema, cast.prefix)
    second.execute("SET statement_timeout = 0")
    migrate.grant(second, cast.world.schema, cast.prefix)


def test_whoever_may_not_make_roles_is_told_so(cast: Cast) -> None:
    with pytest.raises((InsufficientPrivilege, RaiseException)):
        migrate.grant(cast.connect("operator"), cast.world.schema, "other_prefix")


@pytest.mark.parametrize("prefix", ["", "Tenure", "a b", "pg_tenure", "x" * 49, "a;drop", '"'])
def test_a_prefix_that_is_no_plain_name_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="--role-prefix"):
        migrate.roles("tenure", prefix)


def test_the_file_names_no_role_that_the_prefix_does_not_reach() -> None:
    text = migrate.roles("inbox_2", "shop")
    assert not re.search(r"\btenure[._]", re.sub(r"--.*", "", text))
    assert "SCHEMA tenure" not in text
    assert 'GRANT USAGE ON SCHEMA "inbox_2" TO shop_producer, shop_worker, shop_operator, shop_readonly;' in text
    assert "tenure_producer" in (files(sql) / "roles.sql").read_text()


# -- the command


def test_the_command_grants_and_prints(cast: Cast) -> None:
    def tenure(*arguments: str) -> Any:
        return CliRunner().invoke(
            command,
            [*arguments, "--database-url", cast.world.url, "--schema", cast.world.schema, "--role-prefix", cast.prefix],
        )

    cast.world.sql(f"REVOKE EXECUTE ON FUNCTION enqueue_one FROM {cast.prefix}_producer")
    assert not cast.may("producer", "SELECT enqueue('k', '{}')")
    answer = tenure("--roles")
    assert answer.exit_code == 0
    assert f"roles    {cast.prefix}_producer, _worker, _operator and _readonly have their grants" in answer.output
    assert cast.may("producer", "SELECT enqueue('k', '{}')")
    assert json.loads(tenure("--roles", "--json").output)["roles"] is True
    printed = tenure("--roles", "--sql").output
    assert printed == f"BEGIN;\n{migrate.roles(cast.world.schema, cast.prefix)}COMMIT;\n"
    cast.world.sql(printed)
    for wrong in (["--to", "3"], ["--check"]):
        assert tenure("--roles", *wrong).exit_code == 2


def test_a_migration_reminds_of_the_roles_that_are_in_use(cast: Cast) -> None:
    older = f"{cast.world.schema}_older"
    try:
        migrate.apply(cast.world.conn, older, to=migrate.newest() - 1)
        cast.world.sql(f"GRANT EXECUTE ON FUNCTION {older}.enqueue_many TO {cast.prefix}_worker")
        _reminded(["--database-url", cast.world.url, "--schema", older])
    finally:
        cast.world.sql(f"DROP SCHEMA {older} CASCADE")


def _reminded(where: list[str]) -> None:
    answer = CliRunner().invoke(command, where)
    assert (answer.exit_code, "`tenure migrate --roles" in answer.output) == (0, True)
    assert "again" not in CliRunner().invoke(command, where).output


def test_nobody_carries_on_the_line_of_the_audit_that_another_has_begun(cast: Cast) -> None:
    mine = cast.connect("operator")
    line = postgres.run(mine, operators.begin_audit("ann", "cli", "cancel", "kind:k"), cast.world.schema)
    other = f"{cast.prefix}_other"
    cast.world.sql(f"CREATE ROLE {other} LOGIN IN ROLE {cast.prefix}_operator")
    try:
        url = psycopg.conninfo.make_conninfo(cast.world.url, user=other)
        with postgres.connect(url) as theirs, pytest.raises(InsufficientPrivilege, match=r"begun by .*_operator_login"):
            postgres.run(theirs, operators.mark(line, 500, done=True), cast.world.schema)
    finally:
        cast.world.sql(f"DROP ROLE {other}")
    with pytest.raises(InsufficientPrivilege, match="only that user carries it on"):  # nor the owner, by accident
        cast.world.run(operators.mark(line, 500, done=True))
    assert postgres.run(mine, operators.mark(line, 2, done=True), cast.world.schema)
    assert cast.world.sql("SELECT rows, done_at IS NOT NULL FROM audit") == [(2, True)]


# -- the table of the guide, cell by cell

GUIDE = (Path(__file__).resolve().parents[2] / "docs/guides/roles.md").read_text()
BY_HAND = [line.strip("| ").split(" | ") for line in GUIDE.splitlines() if line.startswith("| `")]


def test_the_table_of_what_each_can_do_by_hand_is_true_in_every_cell(cast: Cast) -> None:
    assert len(BY_HAND) > 20
    told = {}
    for query, *cells in BY_HAND:
        for role, cell in zip(ROLES, cells, strict=True):
            assert cell.strip("*") in ("yes", "no"), (query, cell)
            if cast.may(role, query.strip("`")) != (cell.strip("*") == "yes"):
                told[role, query] = cell
    assert told == {}


def test_a_reader_adds_lines_about_reading_under_its_own_name_and_no_others(cast: Cast) -> None:
    with cast.connect("readonly") as conn:
        action = postgres.run(conn, witness.note_reading("ann", "http", "export", "kind:k"), cast.world.schema)
        assert postgres.run(conn, witness.end_reading(action, 3), cast.world.schema)
        assert not postgres.run(conn, witness.end_reading(action, 9), cast.world.schema)
        with pytest.raises(TypeError):
            postgres.run(conn, witness.note_reading("ann", "http", "redrive", "k"), cast.world.schema)  # type: ignore[arg-type]
        others = cast.world.run(witness.note_reading("bob", "http", "export", "kind:k"))
        begun = cast.world.run(operators.begin_audit("bob", "http", "redrive", "kind:k"))
        assert not postgres.run(conn, witness.end_reading(others, 1), cast.world.schema)
        assert not cast.world.run(witness.end_reading(begun, 1))
        assert postgres.run(conn, witness.seal(), cast.world.schema) == 3
    found = cast.world.sql("SELECT actor, verb, rows, database_user FROM audit WHERE done_at IS NOT NULL")
    assert found == [("ann", "export", 3, f"{cast.prefix}_readonly_login")]


@pytest.mark.one_server
def test_a_worker_whose_role_was_not_granted_anew_works_and_says_what_to_do(cast: Cast) -> None:
    cast.world.sql(f"REVOKE ALL ON kinds FROM {cast.prefix}_worker")  # as before migration 20
    inbox = Inbox(schema=cast.world.schema)

    @inbox.handler("k")
    def k() -> None: ...

    cast.world.enqueue("k")
    with working(cast.world, inbox, url=cast.url("worker")) as hired:
        hired.saw(JobCompleted)
        (failed,) = [event for event in hired.events if isinstance(event, ChoreFailed)]
    assert failed.chore == "declare"
    assert failed.error.startswith("permission denied for table kinds: the owner runs `tenure migrate --roles --schema")


def test_a_reader_that_seals_and_stays_keeps_no_action_from_its_rows(cast: Cast) -> None:
    for _ in range(3):
        cast.world.enqueue("a")
    reader, operator = cast.connect("readonly"), cast.connect("operator")

    def seal_and_stay(_action: int) -> None:
        reader.execute("BEGIN")
        assert reader.execute("SELECT seal_audit(1000)").fetchone() == (1,)

    me = operate.Actor("ann")
    done = operate.act(operator, "cancel", Filter(kind="a"), me, schema=cast.world.schema, began=seal_and_stay)
    assert done[2:] == (3, 3, 0, True)
    reader.execute("COMMIT")
    assert cast.world.run(witness.seal()) == 1
    assert [link.ended for link in cast.world.run(witness.audit_links(0))] == [False, True]
