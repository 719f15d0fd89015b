"""`tenure doctor`: each check says ok where things are well; where they are not, warn or fault and the next step."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

import warm
from crew import working
from faces.terminal import Terminal
from faces.test_fleet_commands import NOWHERE, SAID, command, tenure
from tenure import __version__, operate, postgres, sql
from tenure.app.inbox import Inbox
from tenure.doctor import Finding, config, examine, server, tables
from tenure.doctor import questions as doctor_questions
from tenure.errors import NO, NOT_ALLOWED, UNREACHABLE
from tenure.events import JobReleased
from tenure.postgres import migrate
from tenure.verbs import endpoints, fleet, questions, queues
from tenure.verbs.batches import lost_members
from tenure.verbs.capacity import busy_queues
from tenure.verbs.questions import spoken
from tenure.verbs.roles import grants
from tenure.verbs.statement import Statement
from world import World

CHECKS = [
    "settings", "lease", "versions", "clock", "primary", "durability", "standbys", "address", "public",
    "connections", "pooler", "listen",
    "schema", "roles", "indexes", "autovacuum", "bloat", "horizon", "idle_in_transaction", "archive", "housekeeping",
    "leases", "paused", "fleet", "schedules", "gap", "served", "kinds", "encryption", "keys", "lag", "batches",
    "journal", "projections", "webhooks", "bottleneck",
]  # fmt: skip


def findings(world: World) -> dict[str, Finding]:
    return {each.check: each for each in examine(world.url, world.schema, {})}


@pytest.fixture
def well(world: World) -> World:
    """A world in which a worker lives and has kept house."""
    world.run(fleet.register("w-here", {**SAID, "version": __version__}))
    world.run(fleet.take_turn("w-here"))
    return world


# -- the command


@pytest.mark.one_server
def test_one_line_for_each_finding_and_what_was_measured(well: World) -> None:
    answer = tenure(well, "doctor")
    lines = answer.stdout.splitlines()
    assert [line.split()[1] for line in lines] == CHECKS
    assert {line.split()[0] for line in lines} <= {"ok", "warn", "fault"}
    assert f"PostgreSQL {well.conn.info.server_version // 10000}" in answer.stdout
    assert "lease 90 s renewed every 30 s" in answer.stdout
    assert "came back in" in answer.stdout
    assert all(" → " in line for line in lines if not line.startswith("ok"))
    assert answer.returncode == 0
    assert "\x1b" not in answer.stdout


@pytest.mark.one_server
def test_for_programs_it_is_one_document_with_the_settings(well: World) -> None:
    answer = tenure(well, "doctor", "--json")
    found = json.loads(answer.stdout)
    assert (answer.returncode, answer.stderr, found["schema"], found["ok"]) == (0, "", 1, True)
    assert [each["check"] for each in found["findings"]] == CHECKS
    assert {each["name"] for each in found["settings"]} >= {"TENURE_DATABASE_URL", "TENURE_LEASE_SECONDS"}


@pytest.mark.one_server
def test_the_settings_it_shows_are_those_of_its_flags(well: World) -> None:
    for arguments in (["doctor", "--settings", "--json"], ["doctor", "--json"]):
        known = {each["name"]: each for each in json.loads(tenure(well, *arguments).stdout)["settings"]}
        assert known["TENURE_DATABASE_URL"]["source"] == "--database-url"
        assert (known["TENURE_SCHEMA"]["value"], known["TENURE_SCHEMA"]["source"]) == (well.schema, "--schema")


@pytest.mark.one_server
def test_a_fault_ends_it_with_no(well: World) -> None:
    well.sql("DROP INDEX live_due")
    answer = tenure(well, "doctor")
    assert answer.returncode == NO
    assert "fault  indexes              missing: live_due  → create them again" in answer.stdout


@pytest.mark.one_server
def test_a_setting_that_cannot_be_is_a_finding_and_every_other_check_is_made(
    well: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TENURE_SLOTS", "TENURE_TERMINATION_GRACE_SECONDS", "TENURE_SESSION_URL"):
        monkeypatch.setenv(name, "abc")
    answer = tenure(well, "doctor", "--json")
    found = {each["check"]: each for each in json.loads(answer.stdout)["findings"]}
    assert (answer.returncode, answer.stderr) == (NO, "")
    assert set(found) == {*CHECKS, "termination"}
    assert [name for name, each in found.items() if each["level"] == "fault"] == ["lease", "termination", "pooler"]
    assert found["termination"]["said"].startswith("TENURE_TERMINATION_GRACE_SECONDS='abc' must be a number")
    assert found["connections"]["said"].endswith("takes up to 24")


def test_without_a_database_it_says_what_it_can_and_ends_as_unreachable() -> None:
    answer = warm.run("doctor", "--database-url", NOWHERE)
    assert answer.returncode == UNREACHABLE
    assert [line.split()[1] for line in answer.stdout.splitlines()] == ["settings", "lease", "database"]
    answer = warm.run("doctor", "--json", "--database-url", NOWHERE)
    assert (answer.returncode, json.loads(answer.stdout)["ok"]) == (UNREACHABLE, False)


@pytest.mark.one_server
def test_colours_are_for_terminals_and_not_where_somebody_said_no_color(well: World) -> None:
    with Terminal(command(well, "doctor")) as screen:
        screen.until("lag")
        screen.end()
    assert "\x1b[32mok" in screen.seen
    with Terminal(command(well, "doctor"), NO_COLOR="1") as screen:
        screen.until("lag")
        screen.end()
    assert "\x1b[" not in screen.seen


@pytest.mark.one_server
def test_it_changes_nothing(well: World) -> None:
    def everything() -> list[Any]:
        return well.sql("SELECT relname, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables ORDER BY relid")

    well.sql("SELECT pg_stat_force_next_flush()")
    before = [each for each in everything() if each[0] in ("live", "workers", "chores", "queues")]
    findings(well)
    assert [each for each in everything() if each[0] in ("live", "workers", "chores", "queues")] == before


@pytest.mark.one_server
def test_a_reader_may_ask_and_is_told_what_it_cannot_see(well: World) -> None:
    prefix = f"r_{well.schema}"
    migrate.grant(well.conn, well.schema, prefix)
    well.sql(f"CREATE ROLE {prefix}_login LOGIN IN ROLE {prefix}_readonly")
    try:
        url = psycopg.conninfo.make_conninfo(well.url, user=f"{prefix}_login")
        found = {each.check: each for each in examine(url, well.schema, {})}
        assert {each.level for each in found.values()} <= {"ok", "warn"}
        assert "sessions of other users are hidden" in found["horizon"].said
        well.sql(f"REVOKE SELECT ON chores FROM {prefix}_readonly")
        found = {each.check: each for each in examine(url, well.schema, {})}
        assert found["housekeeping"].level == "warn"
        assert "permission denied" in found["housekeeping"].said
        well.sql(f"REVOKE SELECT ON workers FROM {prefix}_readonly")
        found = {each.check: each for each in examine(url, well.schema, {})}
        assert {name: found[name].level for name in ("housekeeping", "fleet", "lag")} == {
            "housekeeping": "warn", "fleet": "warn", "lag": found["lag"].level,
        }  # fmt: skip
        well.sql(f"REVOKE SELECT ON migrations FROM {prefix}_readonly")
        answer = warm.run("doctor", "--json", "--database-url", url, "--schema", well.schema)
        assert answer.returncode == NOT_ALLOWED
        assert "permission denied" in json.loads(answer.stdout)["findings"][-1]["said"]
    finally:
        names = ", ".join(f"{prefix}_{each}" for each in ("login", "producer", "worker", "operator", "readonly"))
        well.sql(f"DROP OWNED BY {names}")
        well.sql(f"DROP ROLE {names}")


# -- the schema and its indexes


def test_a_schema_that_is_missing_or_behind_is_a_fault_and_nothing_more_is_asked(world: World) -> None:
    found = {each.check: each for each in examine(world.url, f"m{world.schema}", {})}
    assert found["schema"].level == "fault"
    assert f"is missing: run `tenure migrate --schema m{world.schema}`" in found["schema"].said
    assert "indexes" not in found
    world.sql("DELETE FROM migrations WHERE version = %s", migrate.newest())
    assert findings(world)["schema"].level == "fault"


def test_an_index_that_is_invalid_is_a_fault(well: World) -> None:
    assert findings(well)["indexes"].level == "ok"
    well.sql(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{well.schema}.live_due'::regclass")
    found = findings(well)["indexes"]
    assert (found.level, found.value, found.next) == ("fault", ["live_due"], "REINDEX INDEX CONCURRENTLY live_due")


def test_every_index_that_the_migrations_make_is_looked_for(world: World) -> None:
    there = {index.name for index in world.run(doctor_questions.indexes())}
    assert tables.indexes_wanted() <= there
    assert {"live_due", "live_keyed", "live_heads", "archive_id"} <= tables.indexes_wanted()


# -- who holds vacuum back


@pytest.fixture
def idler(well: World) -> Iterator[psycopg.Connection[Any]]:
    """A session that has read something in a transaction and then went to lunch."""
    conn = psycopg.connect(
        well.url, application_name="lunch", options="-c default_transaction_isolation=repeatable\\ read"
    )
    conn.execute(f"SELECT count(*) FROM {well.schema}.live".encode())
    yield conn
    conn.close()


def test_an_open_transaction_is_seen_with_its_pid_and_its_query(well: World, idler: psycopg.Connection[Any]) -> None:
    (found,) = [each for each in well.run(doctor_questions.transactions()) if each.pid == idler.info.backend_pid]
    assert found.what == "session"
    assert found.state == "idle in transaction"
    assert found.query is not None
    assert "SELECT count(*)" in found.query
    assert found.held_xids is not None
    assert found.idle_seconds is not None


def open_for(seconds: float, **more: Any) -> doctor_questions.Open:
    facts = {"what": "session", "name": "lunch of ann", "pid": 7, "state": "idle in transaction",
             "open_seconds": seconds,
             "idle_seconds": seconds, "held_xids": 5, "query": "SELECT  1\n", **more}  # fmt: skip
    return doctor_questions.Open(**facts)


def test_a_transaction_is_worth_a_word_after_a_minute_and_a_fault_after_a_quarter_of_an_hour() -> None:
    assert tables.horizon([open_for(30)], sees_all=True).level == "ok"
    warned = tables.horizon([open_for(90)], sees_all=True)
    assert (warned.level, warned.next) == ("warn", "SELECT pg_terminate_backend(7)")
    assert "session 7 (lunch of ann, idle in transaction) for 90 s: SELECT 1" in warned.said
    assert tables.horizon([open_for(1000)], sees_all=True).level == "fault"
    assert tables.idle([open_for(30)]).level == "ok"
    assert tables.idle([open_for(90), open_for(200, pid=8)]).next == "SELECT pg_terminate_backend(8)"


def test_a_prepared_transaction_and_a_slot_hold_vacuum_back_too() -> None:
    prepared = open_for(90, what="prepared", name="gid-1", pid=None, state="prepared", idle_seconds=None, query=None)
    assert tables.horizon([prepared], sees_all=True).next == "ROLLBACK PREPARED 'gid-1'"
    slot = open_for(0, what="slot", name="standby", pid=None, open_seconds=None, idle_seconds=None, held_xids=2_000_000)
    found = tables.horizon([slot], sees_all=True)
    assert (found.level, "pg_drop_replication_slot('standby')" in found.next) == ("warn", True)
    assert tables.horizon([slot._replace(held_xids=20_000_000)], sees_all=True).level == "fault"
    assert tables.horizon([slot._replace(held_xids=20)], sees_all=True).level == "ok"


# -- vacuum and bloat


HOT = doctor_questions.HotTable(
    live=1000, dead=10, table_bytes=1_000_000, index_bytes=500_000, vacuumed_seconds=30, enabled=True
)


def test_dead_versions_are_measured_against_live_ones(well: World) -> None:
    assert tables.bloat(HOT).said == "10 dead versions beside 1000 live (1%), 2 MB with indexes, vacuumed 30 s ago"
    assert tables.bloat(HOT._replace(dead=500_000)).level == "warn"
    assert tables.bloat(HOT._replace(dead=1_500, live=0)).level == "ok"  # a drained queue is not a bloated one
    found = well.run(doctor_questions.hot_table())
    assert found is not None
    assert found.enabled
    assert found.table_bytes > 0


def test_autovacuum_that_is_off_for_the_hot_table_is_a_fault(well: World) -> None:
    assert findings(well)["autovacuum"].level == "ok"
    well.sql("ALTER TABLE live SET (autovacuum_enabled = false)")
    assert findings(well)["autovacuum"].level == "fault"


# -- the server and the way to it


@pytest.fixture
def facts(world: World) -> doctor_questions.Server:
    return world.run(doctor_questions.server_facts())


def test_what_the_server_says_of_itself(world: World, facts: doctor_questions.Server) -> None:
    assert facts.number == world.conn.info.server_version
    assert (facts.recovery, facts.autovacuum, facts.track_counts) == (False, True, True)
    assert abs(facts.seconds - time.time()) < 60
    assert 1 <= facts.connections <= facts.max_connections
    assert facts.sees_all


def test_a_clock_far_off_is_a_warning_only(facts: doctor_questions.Server) -> None:
    assert server.clock(facts, facts.seconds + 1).level == "ok"
    assert "1.00 s ahead of the server; leases use the server's" in server.clock(facts, facts.seconds + 1).said
    assert server.clock(facts, facts.seconds - 9).level == "warn"
    assert "9.00 s behind" in server.clock(facts, facts.seconds - 9).said


def test_a_standby_and_an_old_server_are_faults(facts: doctor_questions.Server) -> None:
    assert server.primary(facts).level == "ok"
    assert server.primary(facts._replace(recovery=True)).level == "fault"
    assert server.primary(facts._replace(read_only=True)).level == "fault"
    assert server.versions(facts._replace(number=130_000), "0.1", "3", "18").level == "fault"


def test_what_a_crash_could_lose_is_a_warning(facts: doctor_questions.Server) -> None:
    safe = facts._replace(fsync=True, full_page_writes=True, synchronous_commit="on")
    assert server.durability(safe).level == "ok"
    assert server.durability(safe._replace(fsync=False)).level == "warn"
    assert server.durability(safe._replace(full_page_writes=False)).level == "warn"
    assert server.durability(safe._replace(synchronous_commit="off")).level == "warn"


def test_connections_are_weighed_against_one_more_worker(facts: doctor_questions.Server) -> None:
    room = facts._replace(max_connections=103, reserved=3)
    assert server.connections(room._replace(connections=50), 23).level == "ok"
    assert server.connections(room._replace(connections=90), 23).level == "warn"
    assert server.connections(room._replace(connections=97), 23).level == "fault"


def test_a_pooler_asks_for_a_direct_address() -> None:
    assert server.pooler(pooled=False, session_url=False).level == "ok"
    assert server.pooler(pooled=True, session_url=False).next == "set TENURE_SESSION_URL to the server's own address"
    assert server.pooler(pooled=True, session_url=True).level == "ok"


def test_a_note_that_is_slow_or_lost_is_a_warning() -> None:
    assert server.notes(0.002).said == "a note to ourselves came back in 2.0 ms"
    assert server.notes(0.8).level == "warn"
    assert server.notes(None).level == "warn"


def test_roles_granted_before_the_last_migration_are_a_fault(well: World) -> None:
    assert findings(well)["roles"].said == "none in use: only the owner gets in"
    prefix = f"r_{well.schema}"
    migrate.grant(well.conn, well.schema, prefix)
    try:
        assert findings(well)["roles"].said == "granted"
        well.sql("ALTER FUNCTION enqueue_many SECURITY INVOKER")
        assert (findings(well)["roles"].level, findings(well)["roles"].next) == ("fault", "`tenure migrate --roles`")
        migrate.grant(well.conn, well.schema, prefix)
        well.sql("GRANT EXECUTE ON FUNCTION backoff TO PUBLIC")
        assert findings(well)["roles"].level == "warn"
    finally:
        names = ", ".join(f"{prefix}_{each}" for each in ("producer", "worker", "operator", "readonly"))
        well.sql(f"DROP OWNED BY {names}")
        well.sql(f"DROP ROLE {names}")


# -- leases, housekeeping, workers


def test_the_arithmetic_of_a_lease() -> None:
    assert config.lease({}).level == "ok"
    assert config.lease({"TENURE_LEASE_SECONDS": "10"}).said.startswith(
        "drain_seconds=25 must be below lease_seconds=10"
    )
    assert config.lease({"TENURE_LEASE_SECONDS": "10"}).level == "fault"
    assert config.lease({"TENURE_LEASE_SECONDS": "10", "TENURE_DRAIN_SECONDS": "5"}).level == "warn"
    assert config.lease({"TENURE_LEASE_SECONDS": "soon"}).level == "fault"


def test_an_orchestrator_must_wait_for_the_drain() -> None:
    assert config.termination({}) is None
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    said = {level: config.termination({**pod, **env}) for level, env in {
        "warn": {},
        "ok": {"TENURE_TERMINATION_GRACE_SECONDS": "60"},
        "fault": {"TENURE_TERMINATION_GRACE_SECONDS": "30"},
    }.items()}  # fmt: skip
    for level, found in said.items():
        assert found is not None
        assert found.level == level
    assert "above 31" in (said["fault"] or Finding("", "ok", 0, "")).next


def test_rows_past_their_lease_that_nobody_sweeps_are_a_fault(well: World) -> None:
    well.enqueue()
    job = well.claim_one("A")
    assert findings(well)["leases"].level == "ok"
    well.expire(job.lease)
    found = findings(well)["leases"]
    assert (found.level, found.value) == ("fault", 1)
    assert re.search("the first since 6. s", found.said)
    well.sweep()
    assert findings(well)["leases"].level == "ok"


def test_chores_that_nobody_does_are_a_fault_while_workers_live(well: World) -> None:
    assert findings(well)["housekeeping"].level == "ok"
    well.sql("UPDATE chores SET ran_at = ran_at - interval '1 hour' WHERE name = 'leases'")
    found = findings(well)["housekeeping"]
    assert (found.level, "leases last done 60 min ago" in found.said) == ("fault", True)
    well.sql("DELETE FROM workers")
    assert findings(well)["housekeeping"].level == "warn"


def test_a_day_without_its_partition_is_noticed_before_it_comes(well: World) -> None:
    assert findings(well)["archive"].level == "ok"
    days = [each.day.replace("-", "") for each in well.run(doctor_questions.archive_days())]
    well.sql(f"DROP TABLE archive_{days[2]}")
    assert (findings(well)["archive"].level, findings(well)["archive"].value["missing"]) == (
        "warn",
        [well.run(doctor_questions.archive_days())[2].day],
    )
    well.sql(f"DROP TABLE archive_{days[0]}")
    assert findings(well)["archive"].level == "fault"
    well.enqueue()
    well.complete(well.claim_one("A").lease)
    well.sql(f"DROP TABLE archive_{days[1]}")
    assert well.run(doctor_questions.archive_days())[0].stray == 1


def test_rows_that_stand_in_no_day_are_a_warning() -> None:
    days = [doctor_questions.Day("2026-01-01", True, 5), doctor_questions.Day("2026-01-02", True, 5)]
    assert tables.archive(days).said == "5 rows are in no day's partition"
    assert tables.archive([day._replace(stray=1001) for day in days]).said.startswith("more than 1,000 rows")


def test_days_kept_for_longer_than_the_server_has_locks_are_a_warning(well: World) -> None:
    (day, *_) = well.run(doctor_questions.archive_days())
    assert day.kept == well.sql("SELECT count(*) FROM days()")[0][0]
    long = tables.archive([day._replace(kept=365, locks=6400)])
    assert (long.level, long.value["kept"]) == ("warn", 365)
    assert long.said == "365 days are kept: one erase holds about 1,460 of the server's 6,400 locks"
    assert "max_locks_per_transaction" in long.next
    assert tables.archive([day._replace(kept=100, locks=6400)]).level == "ok"


def test_a_paused_queue_is_named(well: World) -> None:
    assert findings(well)["paused"].level == "ok"
    well.run(queues.pause("mail"))
    found = findings(well)["paused"]
    assert (found.level, found.value, found.next) == (
        "warn",
        ["mail"],
        "`tenure queues resume mail`, if it should run",
    )


def test_no_worker_one_that_is_gone_and_two_versions_are_warnings(world: World) -> None:
    assert findings(world)["fleet"].said == "no worker is alive"
    world.run(fleet.register("a", {**SAID, "version": "0.1.0"}))
    assert findings(world)["fleet"].said == "1 alive, all of version 0.1.0"
    world.run(fleet.register("b", {**SAID, "version": "0.2.0"}))
    assert findings(world)["fleet"].said == "2 alive, of versions 0.1.0, 0.2.0"
    world.sql("UPDATE workers SET last_seen_at = last_seen_at - interval '1 minute' WHERE id = 'b'")
    assert "not heard from lately: b" in findings(world)["fleet"].said


def test_lag_is_the_wait_of_what_could_run(well: World) -> None:
    assert findings(well)["lag"].said == "no row is due"
    well.enqueue(delay_seconds=3600)
    assert findings(well)["lag"].said == "no row is due"
    well.enqueue()
    assert findings(well)["lag"].level == "ok"
    well.sql(
        "UPDATE live SET available_at = available_at - interval '20 minutes' WHERE available_at < clock_timestamp()"
    )
    found = findings(well)["lag"]
    assert (found.level, found.said) == ("warn", "1 runnable, the oldest for 20 min")


@pytest.fixture
def stuck(well: World) -> World:
    """An ordered key whose head is a dead letter that holds it, and two rows behind; they have been due for long."""
    for _ in range(3):
        well.enqueue(key="user:7", ordered=True, hold=True)
    (head,) = well.claim_ordered()
    well.dead_letter(head.lease)
    well.sql("UPDATE live SET available_at = available_at - interval '20 minutes'")
    return well


def test_a_key_that_waits_for_an_operator_is_named(stuck: World) -> None:
    found = findings(stuck)
    assert (found["keys"].level, found["keys"].said) == (
        "warn",
        "1 key waits for an operator, 2 rows behind: 'user:7' of queue 'default'",
    )
    assert found["keys"].next.startswith("`tenure queues blocked`")
    assert (found["lag"].level, found["lag"].said) == (
        "ok",
        "2 due, none found runnable: other rows of their keys come first",
    )
    stuck.run(operate.free_key("default", "user:7"))
    found = findings(stuck)
    assert found["keys"].level == "ok"
    assert (found["lag"].level, found["lag"].said) == ("warn", "2 runnable, the oldest for 20 min")


def test_a_key_that_is_merely_at_work_or_waits_for_its_time_needs_nobody(well: World) -> None:
    for key, delay_seconds in (("held", 0), ("later", 60)):
        well.enqueue(key=key, ordered=True, delay_seconds=delay_seconds)
        well.enqueue(key=key, ordered=True)
    assert len(well.claim_ordered()) == 1
    assert len(well.run(questions.blocked_keys())) == 2
    assert findings(well)["keys"].said == "no ordered key waits for an operator"


def test_the_runbooks_own_queries_see_what_doctor_sees(stuck: World) -> None:
    lag, keys = (sql.in_schema(each, stuck.schema) for each in lag_queries())
    assert stuck.sql(lag) == []
    assert [row[:2] for row in stuck.sql(keys)] == [("default", "user:7")]
    stuck.run(operate.free_key("default", "user:7"))
    assert [(queue, round(oldest.total_seconds() / 60)) for queue, oldest in stuck.sql(lag)] == [("default", 20)]
    assert stuck.sql(keys) == []
    (head,) = stuck.claim_ordered()
    stuck.release(head.lease)
    stuck.sql("UPDATE live SET available_at = clock_timestamp() + interval '1 hour' WHERE id = %s", head.lease.id)
    assert stuck.sql(lag) == []  # the other stands behind it


def lag_queries() -> list[str]:
    text = (Path(__file__).parents[2] / "docs" / "guides" / "runbook.md").read_text()
    _, _, section = text.partition("\n## lag\n")
    return [each for each in section.split("```sql\n")[1].split("```")[0].split(";") if each.strip()]


def test_rows_that_no_worker_of_their_queue_can_run_are_named(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("known")
    def known() -> None: ...

    id = world.enqueue("nokind")
    with working(world, inbox) as worker:
        worker.saw(JobReleased)
        found = findings(world)["kinds"]
        assert (found.level, found.value, found.next) == ("warn", ["nokind"], f"deploy one; `tenure why {id}`")
        assert found.said == "rows cannot run: no worker of their queue has a handler for 'nokind'"
        world.run(fleet.register("elsewhere", {"queues": ["mail"], "kinds": ["nokind"]}))
        assert findings(world)["kinds"].level == "warn"
        world.run(fleet.register("able", {"queues": ["default"], "kinds": ["nokind"]}))
        assert findings(world)["kinds"].level == "ok"
        world.sql("UPDATE workers SET status = 'draining' WHERE id = 'able'")
        assert findings(world)["kinds"].level == "warn"
        world.run(fleet.register("silent", {}))
        assert findings(world)["kinds"].level == "ok"  # one that does not say what it has is taken to have all
    world.sql("DELETE FROM workers")
    world.due()
    assert findings(world)["kinds"].said == "not known for queues that no worker serves (1)"


def test_queues_with_due_rows_that_no_worker_serves_are_named(world: World) -> None:
    """It said "ok kinds" and "ok lag" while nobody looked into the queue."""
    assert findings(world)["served"] == Finding("served", "ok", {}, "no row is due")
    world.run(fleet.register("w", {"queues": ["default"], "kinds": ["k"]}))
    world.enqueue("k")
    world.enqueue("k", queue="later", delay_seconds=3600)
    world.run(queues.pause("paused"))
    world.enqueue("k", queue="paused")
    found = findings(world)
    assert (found["served"].level, found["served"].said) == ("ok", "every queue with due rows is served")
    world.enqueue("k", queue="the mail")
    world.enqueue("k", queue="orders", key="o", ordered=True)
    world.sql("UPDATE live SET available_at = available_at - interval '4 minutes' WHERE queue = 'the mail'")
    found = findings(world)
    assert (found["served"].level, set(found["served"].value)) == ("warn", {"the mail", "orders"})
    assert found["served"].said == "no worker serves 'orders', 'the mail', where rows have been due for 4 min"
    assert found["served"].next == "`tenure worker MODULE:INBOX --queues 'orders,the mail'`"
    assert {found[name].level for name in ("kinds", "lag")} == {"warn"}, "they did not look there"
    world.sql("UPDATE workers SET metadata = '{}'")
    assert findings(world)["served"].level == "ok", "one that does not say what it serves may serve all"
    world.sql("UPDATE workers SET metadata = metadata || '{\"queues\": [\"orders\"]}', status = 'draining'")
    assert set(findings(world)["served"].value) == {"default", "the mail", "orders"}


def test_a_span_is_told_in_the_unit_that_fits() -> None:
    assert [spoken(each) for each in (5, 119, 120, 7200, 200_000)] == ["5 s", "119 s", "2 min", "2 h", "2 d"]


# -- bounded


@pytest.mark.one_server
def test_a_check_that_takes_too_long_is_a_finding_and_the_others_go_on(
    well: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.doctor.STATEMENT_SECONDS", 0.5)
    blocker = well.connect()
    with blocker.transaction():
        blocker.execute("LOCK TABLE chores IN ACCESS EXCLUSIVE MODE")
        found = findings(well)
    assert (found["housekeeping"].level, found["housekeeping"].said) == ("warn", "no answer within 0.5 s")
    assert found["lag"].level == "ok"


@pytest.mark.one_server
def test_its_questions_take_little_time_with_many_rows(well: World) -> None:
    well.sql(
        """INSERT INTO live (kind, payload, queue, available_at)
           SELECT 'k', '{}', 'q' || n % 3, clock_timestamp() + (n % 2 - 1) * interval '1 day'
           FROM generate_series(1, 100000) AS n"""
    )
    well.sql("ANALYZE live")
    asked: list[Statement[Any]] = [
        doctor_questions.server_facts(), doctor_questions.transactions(), doctor_questions.indexes(),
        doctor_questions.hot_table(), doctor_questions.chores(), doctor_questions.archive_days(),
        doctor_questions.overdue(), grants(), queues.queues(), questions.workers(),
        busy_queues(), lost_members(),
    ]  # fmt: skip
    conn = postgres.connect(well.url)
    for statement in asked:
        conn.execute(
            "SET statement_timeout = '2s'"
        )  # with slack: what is counted in full takes longer on a busy machine
        postgres.run(conn, statement, well.schema)
    conn.close()


@pytest.mark.one_server
def test_endpoints_that_fail_and_secrets_in_clear_are_told(well: World) -> None:
    assert findings(well)["webhooks"].level == "ok"  # the control: there is none
    for n, secret in ((1, '{"tenure": "sealed"}'), (2, '{"tenure": "sealed"}')):
        well.run(endpoints.add_endpoint(UUID(int=n), "acme", "https://acme.example", ["*"], secret))
    assert findings(well)["webhooks"].level == "ok"
    well.sql("UPDATE endpoints SET open_until = clock_timestamp() WHERE id = %s", UUID(int=1))
    well.sql("UPDATE endpoints SET state = 'disabled' WHERE id = %s", UUID(int=2))
    found = findings(well)["webhooks"]
    assert (found.level, found.said) == ("warn", "2 endpoints, 1 with an open circuit and 1 disabled")
    well.sql(
        "UPDATE endpoints SET state = 'active', open_until = NULL, secret_before = 'whsec_x' WHERE id = %s", UUID(int=1)
    )
    well.sql("UPDATE endpoints SET state = 'paused', secret = 'whsec_x' WHERE id = %s", UUID(int=2))
    found = findings(well)["webhooks"]
    assert (found.level, found.said) == ("warn", "2 of 2 endpoints with a secret in clear")
    assert "codec" in found.next
