"""The guide to hooks does what it says; Sentry is the real library with a transport that keeps what it is given."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

import tenure
from crew import working
from tenure.events import JobCompleted, JobReleased, JobRetried
from world import World

pytestmark = pytest.mark.one_server
GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/hooks.md"


class Kept(Transport):
    """Sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        """Keep it."""
        self.events += [item.payload.json for item in envelope.items]


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The blocks of the guide, imported as the modules that they name."""
    found: dict[str, str] = {}
    for name, body in re.findall(r"```python\n# (\S+?\.py)\b[^\n]*\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        found[name] = found.get(name, "") + "\n" + body
    for name, text in found.items():
        tmp_path.joinpath(name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("app")
    for name in found:
        sys.modules.pop(name.removesuffix(".py"), None)


def test_the_guide_to_hooks_works_as_it_is_written(world: World, app: Any, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module("report")
    kept = Kept()
    sentry_sdk.init(dsn="http://key@127.0.0.1:1/1", transport=kept, default_integrations=False)
    try:
        with working(world, app.inbox) as hired:
            app.tenant.set("ada")
            sent = {n: app.call_api.enqueue(world.conn, order_id=n).id for n in (1, 429, 500)}
            hired.saw(JobCompleted)
            hired.saw(JobReleased)
            hired.saw(JobRetried, 2)  # a row that is given back is told as one of them
    finally:
        sentry_sdk.flush(2)
        sentry_sdk.init()
    assert len(app.seconds) == 3
    assert capsys.readouterr().out.splitlines() == ["enqueued"] * 3
    assert '"sent-by": "web-1"' in (world.row(sent[1]).headers or "")
    assert (world.row(sent[429]).status, world.row(sent[429]).attempts) == ("pending", 0)
    assert "RuntimeError: ada cannot call" in (world.row(sent[500]).last_error or "")
    told = {event["exception"]["values"][-1]["type"]: event for event in kept.events}
    assert set(told) == {"RuntimeError"}, "what was caught around the attempt is no error"
    assert told["RuntimeError"]["contexts"]["tenure"]["row"] == str(sent[500])
    assert told["RuntimeError"]["tags"]["tenure.kind"] == "call_api"
    assert told["RuntimeError"]["fingerprint"] == ["{{ default }}", "call_api"]


def test_the_guide_to_unique_rows_and_scripts_works(
    world: World, app: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENURE_DATABASE_URL", world.url)
    monkeypatch.setenv("TENURE_SCHEMA", world.schema)
    made = importlib.import_module("unique")
    assert made.inbox.queues.keys() == {"default", "call_llm"}
    for _ in range(2):
        importlib.import_module("script")
        del sys.modules["script"]
    assert capsys.readouterr().out.split() == ["enqueued", "duplicate"]
    digest = made.mail_digest
    told = [digest.enqueue(world.conn, user=1, reason=reason).outcome for reason in ("new post", "new reply")]
    assert told == ["enqueued", "duplicate"]


async def _sent(app: Any) -> str:
    async with await tenure.connect_async() as conn:
        return str((await app.call_api.enqueue(conn, order_id=1)).outcome)


def test_a_script_on_a_loop_commits_too_and_is_told_of_a_missing_schema(
    world: World, app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENURE_DATABASE_URL", world.url)
    monkeypatch.setenv("TENURE_SCHEMA", world.schema)
    app.inbox.use_schema(world.schema)
    assert asyncio.run(_sent(app)) == "enqueued"
    assert world.count("live") == 1
    monkeypatch.setenv("TENURE_SCHEMA", "nowhere")
    with pytest.raises(tenure.SchemaMismatch, match="tenure migrate"):
        tenure.connect()
