"""What is encrypted stands nowhere in plain text: not in the data folder, the WAL, the server's log or a dump."""

from __future__ import annotations

import secrets
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from crew import eventually, working
from tenure import Codec, Inbox, NewRow, postgres, verbs
from tenure.embedded.binaries import binaries
from tenure.events import EncryptionKeyMissing, JobCompleted, JobRetried
from world import World

ONE, TWO = {"k1": b"1" * 32}, {"k2": b"2" * 32}


def holds(folder: Path, words: list[str]) -> set[str]:
    """Which of these words stand in any file below the folder."""
    found: set[str] = set()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            found |= {word for word in words if word.encode() in data}
    return found


def dump(world: World) -> str:
    """The schema as pg_dump writes it."""
    program = binaries().program("pg_dump")
    ran = subprocess.run([program, "--schema", world.schema, world.url], capture_output=True, check=True)
    return ran.stdout.decode()


@pytest.mark.one_server
def test_no_file_of_the_server_and_no_dump_holds_it(world: World) -> None:
    ((data,),) = world.sql("SHOW data_directory")
    hidden, plain = f"hidden-{secrets.token_hex(12)}", f"plain-{secrets.token_hex(12)}"
    inbox, calls = Inbox(codec=Codec(ONE)), []

    @inbox.handler("pay", backoff=None)
    def pay(card: str) -> None:
        calls.append(card)
        if len(calls) == 1:
            raise ValueError(f"refused: {card}")

    pay.schema = world.schema
    # The most talkative log: every statement, every parameter.
    noisy = postgres.connect(world.url, application_name="noisy")
    for setting in ("log_statement = 'all'", "log_min_duration_statement = 0", "log_parameter_max_length = -1"):
        noisy.execute(f"SET {setting}".encode())
    pay.using(idempotency_key="first").enqueue(noisy, card=hidden)
    postgres.run(noisy, verbs.enqueue(NewRow("other", {"card": plain})), world.schema)
    noisy.close()
    with working(world, inbox) as hired:
        hired.saw(JobRetried)
        world.due()
        hired.saw(JobCompleted)
    assert calls == [hidden, hidden]
    assert hidden not in repr(hired.events)
    world.sql("CHECKPOINT")
    folder = Path(data).parent if (Path(data).parent / "PG_VERSION").exists() else Path(data)
    assert holds(folder, [hidden, plain]) == {plain}, "the control is found, and nothing else"
    assert plain in (text := dump(world))
    assert hidden not in text


@pytest.mark.one_server
def test_keys_are_changed_under_load_and_nothing_is_lost(world: World) -> None:
    rings: dict[str, Mapping[str, bytes]] = {"workers": ONE, "producers": ONE}
    done: list[int] = []
    over = threading.Event()
    sent = [0]

    def inbox_of(whose: str) -> Inbox:
        inbox = Inbox(codec=Codec(lambda: rings[whose]))

        @inbox.handler("pay")
        def pay(order: int) -> None:
            done.append(order)

        pay.schema = world.schema
        return inbox

    def produce() -> None:
        conn, inbox = world.connect(), inbox_of("producers")
        while not over.wait(0.002) and sent[0] < 20_000:
            inbox["pay"].enqueue(conn, order=sent[0])
            sent[0] += 1
            inbox.codec._asked = 0.0  # type: ignore[union-attr]  # as if a minute had passed

    producer = threading.Thread(target=produce, daemon=True)
    with working(world, inbox_of("workers")) as first, working(world, inbox_of("workers")) as second:
        producer.start()
        try:
            _more(lambda: len(done))
            rings["workers"] = {**ONE, **TWO}  # workers first: they can read the new key before anybody writes it
            _more(lambda: len(done))
            rings["producers"] = {**TWO, **ONE}
            eventually(lambda: world.sql("SELECT 1 FROM inbox WHERE payload #>> '{$encrypted,key}' = 'k2' LIMIT 1"))
            _more(lambda: len(done))
            eventually(lambda: not world.sql("SELECT 1 FROM live WHERE payload #>> '{$encrypted,key}' = 'k1' LIMIT 1"))
            rings["workers"] = rings["producers"] = TWO
            _more(lambda: len(done))
        finally:
            over.set()
            producer.join()
        eventually(lambda: len(done) >= sent[0])
    assert sorted(done) == list(range(sent[0]))
    assert world.count("dead") == 0
    lost = [*first.of(EncryptionKeyMissing), *second.of(EncryptionKeyMissing)]
    assert not [each for each in lost if world.status(each.job_id) != "completed"]
    assert world.sql("SELECT DISTINCT payload #>> '{$encrypted,key}' FROM archive ORDER BY 1") == [("k1",), ("k2",)]


def _more(count: Callable[[], int]) -> None:
    """Wait until fifty more are done."""
    until = count() + 50
    eventually(lambda: count() >= until)
