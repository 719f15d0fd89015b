"""Code written for Celery runs on Tenure: sent in the caller's transaction, tried again as its decorator says."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from crew import eventually, working
from tenure.app.inbox import Inbox
from tenure.contrib.celery import Celery, SharedTask
from tenure.contrib.celery_words import INSTEAD, SENT, SO_ANYWAY, Retries
from tenure.errors import BadSettings
from world import World

pytestmark = pytest.mark.one_server


@pytest.fixture
def app(world: World) -> Celery:
    """What stands for the app of Celery: it sends on the world's own connection."""
    return Celery(Inbox(schema=world.schema), conn=lambda: world.conn)


def ended(world: World, n: int) -> list[tuple[Any, ...]]:
    """How rows ended, once so many have."""
    asked = "SELECT kind, status, attempts FROM inbox WHERE status NOT IN ('pending', 'processing') ORDER BY kind"
    return eventually(lambda: rows if len(rows := world.sql(asked)) >= n else [])


def test_what_is_sent_by_delay_is_in_the_transaction_and_runs(world: World, app: Celery) -> None:
    @app.shared_task
    def add(x: int, y: int = 0) -> int:
        return x + y

    with world.conn.transaction(force_rollback=True):
        add.delay(1, y=2)
    assert world.count("live") == 0
    sent = add.delay(40, y=2)
    assert add(1, 2) == 3
    with working(world, app.inbox):
        assert app.inbox.result_blocking(sent_id(sent), timeout_seconds=90, url=world.url).value == 42


def sent_id(sent: Any) -> Any:
    from uuid import UUID

    return UUID(sent.id)


def test_a_call_without_a_connection_commits_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_DATABASE_URL", world.url)
    app = Celery(Inbox(schema=world.schema))
    add = app.task(name="add")(lambda x: x + 1)
    sent = add.delay(1)
    assert world.count("live") == 1
    with working(world, app.inbox):
        assert sent.get(timeout=90) == 2


def test_countdown_eta_queue_and_priority_are_those_of_the_row(world: World, app: Celery) -> None:
    @app.shared_task(queue="mail", priority=2, max_retries=5)
    def send(to: str) -> None: ...

    at = (datetime.now(UTC) + timedelta(days=9)).replace(tzinfo=None)
    send.apply_async(("a",), countdown=3600)
    send.apply_async(kwargs={"to": "b"}, eta=at, queue="bulk", priority=9, idempotency_key="b")
    send.apply_async(kwargs={"to": "b"}, eta=at, queue="bulk", priority=9, idempotency_key="b")
    asked = "SELECT queue, priority, max_attempts, available_at > clock_timestamp() FROM live ORDER BY priority"
    assert world.sql(asked) == [("mail", 2, 6, True), ("bulk", 9, 6, True)]
    assert world.sql("SELECT available_at FROM live WHERE queue = 'bulk'") == [(at.replace(tzinfo=UTC),)]


def test_an_error_fails_and_one_to_retry_for_is_tried_again(world: World, app: Celery) -> None:
    seen: list[int] = []

    @app.shared_task(name="a_fails")
    def a_fails() -> None:
        raise KeyError("no")

    @app.shared_task(name="b_again", autoretry_for=(OSError,), default_retry_delay=0, max_retries=2)
    def b_again() -> None:
        seen.append(1)
        raise OSError("net")

    @app.shared_task(name="c_bound", bind=True, max_retries=3)
    def c_bound(self: SharedTask) -> str:
        if self.request.retries < 2:
            self.retry(countdown=0)
        return f"after {self.request.retries}"

    @app.shared_task(name="d_gives_up", bind=True, max_retries=1)
    def d_gives_up(self: SharedTask) -> None:
        try:
            raise ValueError("deep")
        except ValueError as error:
            self.retry(exc=error, countdown=0)

    for each in (a_fails, b_again, c_bound, d_gives_up):
        each.delay()
    with working(world, app.inbox):
        found = ended(world, 4)
    assert found == [
        ("a_fails", "failed", 1),
        ("b_again", "dead_letter", 3),
        ("c_bound", "completed", 3),
        ("d_gives_up", "failed", 2),
    ]
    assert len(seen) == 3
    assert world.sql("SELECT value FROM results WHERE value::text LIKE '%%after%%'") == [("after 2",)]
    assert "ValueError: deep" in world.sql("SELECT last_error FROM dead WHERE kind = 'd_gives_up'")[0][0]


def test_the_code_of_the_guide_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_DATABASE_URL", world.url)
    monkeypatch.setenv("TENURE_SCHEMA", world.schema)
    guide = (Path(__file__).parents[2] / "docs/guides/from_celery.md").read_text()
    before, after = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[:2]
    for block in (before, after):
        names: dict[str, Any] = {"__name__": "shop", "deliver": print}
        exec(block, names)  # noqa: S102
    assert world.sql("SELECT kind, queue, max_attempts FROM live ORDER BY seq") == [
        ("shop.send_receipt", "mail", 6),
        ("send_receipt", "mail", 6),
    ]


def test_waits_grow_as_in_celery() -> None:
    plain = Retries.read({"retry_backoff": 2, "retry_jitter": False, "retry_backoff_max": 20}, "it")
    assert [plain.after(n) for n in range(5)] == [2, 4, 8, 16, 20]
    shaken = Retries.read({"retry_backoff": True}, "it")
    assert all(0 <= shaken.after(4) <= 16 for _ in range(50))
    assert Retries.read({}, "it").after(7) == 180


@pytest.mark.parametrize("option", INSTEAD)
def test_what_is_not_mapped_is_refused_with_what_to_use(app: Celery, option: str) -> None:
    known = app.shared_task(name="known")(lambda: None)
    with pytest.raises(BadSettings, match=rf"has {option}=.*does not map: \S"):
        known.apply_async(**{option: object()})
    if option in SO_ANYWAY:
        known.apply_async(**{option: SO_ANYWAY[option]})


def test_mistakes_are_one_sentence_each(world: World, app: Celery) -> None:
    known = app.shared_task(name="known", bind=True)(id)
    assert "countdown" in SENT
    with pytest.raises(BadSettings, match="unknown option 'count_down': choose from countdown"):
        known.apply_async(count_down=1)
    with pytest.raises(BadSettings, match="give one of them"):
        known.apply_async(countdown=1, eta=datetime.now(UTC) + timedelta(hours=1))
    with pytest.raises(BadSettings, match="max_retries=None: give a whole number"):
        app.shared_task(name="for_ever", max_retries=None)(lambda: None)
    with pytest.raises(AttributeError, match="use a batch or a workflow"):
        known.s(1)
    with pytest.raises(BadSettings, match="above the 3 of its decorator"):
        known.retry(max_retries=9)

    async def awaiting() -> None: ...

    with pytest.raises(BadSettings, match="make it a handler"):
        app.shared_task(name="awaiting")(awaiting)
    with pytest.raises(BadSettings, match="give conn=… a blocking connection"):
        Celery(app.inbox, conn=lambda: psycopg.AsyncConnection.__new__(psycopg.AsyncConnection)).send(known.handler, {})


def test_arguments_that_the_function_does_not_take_are_refused_by_the_call(world: World, app: Celery) -> None:
    @app.shared_task(bind=True)
    def add(self: Any, x: int, y: int = 0) -> int:
        return x + y

    for args, kwargs in (((), {}), ((1, 2, 3), {}), ((1,), {"z": 2})):
        with pytest.raises(TypeError, match=r"add\(\): "):
            add.delay(*args, **kwargs)
    assert world.count("live") == 0
    add.delay(1, y=2)
    assert world.count("live") == 1


def test_what_only_celery_has_is_told_in_one_sentence(world: World, app: Celery) -> None:
    with pytest.raises(BadSettings, match=r"Celery\('proj', broker=…\): there is no broker to name"):
        Celery("proj", broker="redis://")  # type: ignore[arg-type]
    for name in ("conf", "send_task", "autodiscover_tasks", "control"):
        with pytest.raises(AttributeError, match=rf"this app has no '{name}' on Tenure: \S"):
            getattr(app, name)
    known = app.shared_task(name="known")(lambda: None)
    sent = known.delay()
    for name in ("status", "ready", "revoke"):
        with pytest.raises(AttributeError, match=rf"the answer of delay\(\) has no '{name}' on Tenure: \S"):
            getattr(sent, name)
    with pytest.raises(BadSettings, match=r"has time_limit=2: say it once, in the decorator"):
        known.apply_async(time_limit=2)
