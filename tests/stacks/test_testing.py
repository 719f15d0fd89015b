"""What tests of an application get: a schema each, real workers that can be killed, and a crash at every line."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from patience import SECONDS_MAX
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.errors import BadSettings, StaleLease
from tenure.events import ExecutionStarted, StaleWriteBlocked
from tenure.testing import Testbed
from tenure.testing.plugin import inbox_named
from tenure.testing.schemas import Schemas

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/testing.md"
PLUGINS = ["-p", "no:schemathesis", "-p", "no:hypothesispytest", "-p", "no:xdist", "-p", "no:cacheprovider"]


@pytest.fixture(scope="session")
def tenure_pg(server_url: str) -> str:
    """The server of our own tests."""
    return server_url


pytestmark = pytest.mark.one_server


def _files(pytester: pytest.Pytester, server_url: str, **changed: str) -> None:
    """The blocks of the guide as files, with some words changed."""
    text = GUIDE.read_text()
    for old, new in changed.items():
        assert old in text
        text = text.replace(old, new)
    for name, body in re.findall(r"```(?:python|ini)\n# (\S+)\n(.*?)```", text, re.DOTALL):
        pytester.path.joinpath(name).write_text(body)


@pytest.fixture
def own_pytest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, server_url: str) -> pytest.Pytester:
    """A pytest of its own, on our server."""
    monkeypatch.setenv("TENURE_TEST_DATABASE_URL", server_url)
    return pytester


def test_the_guide_works_as_it_is_written(own_pytest: pytest.Pytester, server_url: str) -> None:
    _files(own_pytest, server_url)
    ran = own_pytest.runpytest_subprocess(*PLUGINS, "--tenure-crash", "-v", timeout=SECONDS_MAX)
    ran.assert_outcomes(passed=9)  # five tests, and four points of one of them
    told = ran.stdout.str()
    assert "killed before app.py:11 again" in told, "before the commit"
    assert "killed after the handler returned" in told


def test_control_a_write_outside_the_fence_is_found_at_the_points_behind_it(
    own_pytest: pytest.Pytester, server_url: str
) -> None:
    _files(own_pytest, server_url, **{"job.fenced() as tx": "job.connection() as tx"})
    only = ["-k", "wherever", "--tenure-crash", "-rfE"]
    ran = own_pytest.runpytest_subprocess(*PLUGINS, *only, timeout=SECONDS_MAX)
    ran.assert_outcomes(passed=3, failed=2)  # as it is, before the write and at it; left and returned
    failed = [line for line in ran.stdout.lines if line.startswith("FAILED")]
    assert [re.search(r"\[killed (.*?)(?::|\])", line)[1] for line in failed] == [  # type: ignore[index]
        "before app.py",
        "after the handler returned",
    ]


def test_a_mistake_is_one_sentence(tenure_pg: str, testbed: Testbed) -> None:
    with pytest.raises(RuntimeError, match=r"the testbed has no inbox: call testbed.use\(inbox\), or write"):
        testbed.run_pending()
    with pytest.raises(pytest.UsageError, match=r"tenure_inbox = no_such:inbox: No module .*; write MODULE:INBOX"):
        inbox_named("no_such:inbox")
    with pytest.raises(pytest.UsageError, match="tenure_inbox = os:path: it is a module, not an Inbox"):
        inbox_named("os:path")


def test_the_plugin_loads_nothing_heavy() -> None:
    code = (
        "import sys, tenure.testing.plugin; print([m for m in ('psycopg', 'msgspec', 'asyncio') if m in sys.modules])"
    )
    command = [sys.executable, "-c", f"import asyncio, sys; del sys.modules['asyncio']; {code}"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS_MAX)
    assert told.stdout.strip() == "[]"


# -- in this process


@pytest.fixture
def inbox(testbed: Testbed) -> Inbox:
    """An inbox of the test, in its schema."""
    testbed.conn.execute("CREATE TABLE effects (id uuid, token bigint)")
    return testbed.use(Inbox())


def test_a_test_gets_a_schema_without_a_trace_of_the_one_before(tenure_pg: str) -> None:
    with Schemas(tenure_pg) as schemas:
        with schemas.lend() as first, Testbed(tenure_pg, first) as testbed:
            before = _contents(testbed)
            testbed.conn.execute("CREATE TABLE results (n int)")  # as one of ours
            inbox = testbed.use(Inbox())
            handler = inbox.handler("a", ordered=True, key="k")(lambda: None)
            handler.enqueue(testbed.conn)
            assert testbed.run_pending().completed == 1
            assert _contents(testbed) != before
        with schemas.lend() as second, Testbed(tenure_pg, second) as testbed:
            assert second == first
            assert _contents(testbed) == before
            testbed.conn.execute(f"CREATE VIEW {second}.mine AS SELECT 1")  # that is not done
        with schemas.lend() as third:
            assert third != first, "a schema that was changed is not lent again"


def _contents(testbed: Testbed) -> dict[str, int]:
    names = testbed.conn.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r'", [testbed.schema]
    ).fetchall()
    ask = f"SELECT count(*) FROM {testbed.schema}."
    counted = ((name, testbed.conn.execute(f"{ask}{name}".encode()).fetchone()) for (name,) in names)
    return {name: row[0] for name, row in counted if row}


def test_what_ran_is_counted_with_its_errors(testbed: Testbed, inbox: Inbox) -> None:
    @inbox.handler("picky", max_attempts=2)
    def picky(job: Job, order_id: int) -> None:
        if order_id == 2:
            raise ValueError(f"no order {order_id}")

    for order_id in (1, 2):
        picky.enqueue(testbed.conn, order_id=order_id)
    ran = testbed.run_pending()
    assert (ran.completed, ran.retried, ran.dead_lettered) == (1, 1, 0)
    assert "ValueError: no order 2" in ran.errors[0]
    assert testbed.run_pending().retried == 0, "it waits for its backoff"
    assert testbed.run_pending(scheduled=True).dead_lettered == 1


def _mail(to: str, tags: list[str] | None = None) -> None: ...


def test_what_was_sent_is_found_and_what_is_missing_is_told(testbed: Testbed, inbox: Inbox) -> None:
    mail = inbox.handler("mail", queue="slow")(_mail)
    sent = mail.enqueue(testbed.conn, to="ada", tags=["a", "b"])
    assert testbed.assert_enqueued(mail, to="ada", tags=["a", "b"], queue="slow").id == sent.id
    with pytest.raises(AssertionError, match=r"no row mail to='bob' was enqueued; there is mail .*ada.* in queue slow"):
        testbed.assert_enqueued("mail", to="bob")
    with pytest.raises(AssertionError, match="nothing of the kind should be enqueued"):
        testbed.assert_not_enqueued(mail)
    testbed.assert_not_enqueued(mail, to="bob")


@pytest.mark.parametrize("ordered", [False, True])
def test_a_job_to_call_a_handler_with_holds_a_real_lease(testbed: Testbed, inbox: Inbox, ordered: bool) -> None:
    @inbox.handler("note", ordered=ordered, key="n:{n}", priority=5, result=True)
    async def note(job: Job, n: int) -> int:
        async with job.fenced() as tx:
            await tx.execute("INSERT INTO effects VALUES (%s, %s)", [job.id, job.token])
            job.returns(n)
        return n

    job = testbed.job(note, n=4)
    assert asyncio.run(note(job, n=4)) == 4
    assert testbed.row(job).status == "completed"
    late = testbed.job(note, n=5)
    testbed.expire_lease(late)
    with pytest.raises(StaleLease):
        asyncio.run(note(late, n=5))
    assert testbed.conn.execute("SELECT id, token FROM effects").fetchall() == [(job.id, 1)]


def _slow(inbox: Inbox) -> Any:
    @inbox.handler("slow")
    def slow(job: Job) -> None:
        if job.attempt == 1:
            time.sleep(0.5)
        with job.fenced() as tx:
            tx.execute("INSERT INTO effects VALUES (%s, %s)", [job.id, job.token])

    return slow


def test_a_worker_that_was_killed_is_replaced(testbed: Testbed, inbox: Inbox) -> None:
    sent = _slow(inbox).enqueue(testbed.conn)
    with testbed.worker() as worker:
        testbed.events.saw(ExecutionStarted)
        worker.kill()
    assert testbed.row(sent).status == "processing"
    testbed.expire_lease(sent)
    assert testbed.run_pending(scheduled=True).completed == 1
    assert testbed.conn.execute("SELECT id, token FROM effects").fetchall() == [(sent.id, 2)]


def test_a_worker_that_was_frozen_writes_nothing_when_it_goes_on(testbed: Testbed, inbox: Inbox) -> None:
    sent = _slow(inbox).enqueue(testbed.conn)
    with testbed.worker() as worker:
        testbed.events.saw(ExecutionStarted)
        worker.pause()
        worker.pause()  # it stands already
        testbed.expire_lease(sent)
        assert testbed.run_pending(scheduled=True).completed == 1
        worker.resume()
        (blocked,) = testbed.events.saw(StaleWriteBlocked)
        assert (blocked.stale_token, worker.stop()) == (1, 0)
    assert testbed.conn.execute("SELECT id, token FROM effects").fetchall() == [(sent.id, 2)]


def test_a_worker_that_cannot_start_says_why(testbed: Testbed, inbox: Inbox) -> None:
    @inbox.lifespan
    async def broken() -> Any:
        raise OSError("no such printer")
        yield

    inbox.handler("a")(lambda: None)
    with pytest.raises(AssertionError, match="no such printer"), testbed.worker():
        pass


def test_a_wrong_argument_is_told_in_one_sentence(testbed: Testbed) -> None:
    with pytest.raises(BadSettings, match=r"takes an Inbox, not 'app:inbox': import it"):
        testbed.use("app:inbox")  # type: ignore[arg-type]
    for wrong in (None, "nope", 7):
        with pytest.raises(BadSettings, match=r"is no row: give its id, its job, or the answer of enqueue"):
            testbed.row(wrong)
    with pytest.raises(BadSettings, match="is no row"):
        testbed.expire_lease("nope")
    with pytest.raises(BadSettings, match=r"None is no kind: give its name, or the handler"):
        testbed.assert_enqueued(None)  # type: ignore[arg-type]


def test_an_engine_on_asyncpg_sees_the_tables_of_the_test_first(testbed: Testbed) -> None:
    block = re.search(r"# engines\.py\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert block
    there: dict[str, Any] = {}
    exec(block.group(1), there)  # noqa: S102 - the guide's own words
    testbed.conn.execute("CREATE TABLE orders (id int)")

    async def where() -> str:
        engine = there["engine_of"](testbed)
        async with engine.connect() as conn:
            found = await conn.exec_driver_sql("SELECT 'orders'::regclass::oid::bigint")
            oid = found.scalar_one()
        await engine.dispose()
        return str(oid)

    found = testbed.conn.execute("SELECT 'orders'::regclass::oid::bigint").fetchone()
    assert found
    assert asyncio.run(where()) == str(found[0])
