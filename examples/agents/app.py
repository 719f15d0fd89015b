"""A queue of agents: each conversation one step at a time, the model's limits kept by all workers together.

- `limits`: so many calls of the model at once and in a second, across all workers, and one at a time in a conversation.
- Whoever is told to wait (HTTP 429) gives the row back with `Snooze`: no attempt is used.
- What the model says and what follows from it, the next step, commit together: a crash repeats a call, never a message.
- The model is given by annotation, so that a test gives another one.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from tenure import Inbox, Job, Limits, Snooze, connect, injected

TABLES = """
CREATE TABLE IF NOT EXISTS messages (
  id bigint GENERATED ALWAYS AS IDENTITY, talk int NOT NULL, who text NOT NULL, said text NOT NULL
);
"""
STEPS_MAX = 8

inbox = Inbox()


class Busy(Exception):
    """The model wants a pause."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"busy for {seconds:g} s")
        self.seconds = seconds


class Model(Protocol):
    """What an agent needs of a model."""

    async def answer(self, said: list[tuple[str, str]], idempotency_key: str) -> str:
        """The next message; "tool: …" asks for a tool."""
        ...


class Parrot:
    """A model without a network: it asks for one tool, and then repeats what that said."""

    async def answer(self, said: list[tuple[str, str]], idempotency_key: str) -> str:  # noqa: ARG002
        """The next message."""
        who, last = said[-1]
        return f"tool: weather {last.split()[-1]}" if who == "user" else f"It says: {last}"


@inbox.provides
def model() -> Model:
    """The model of an attempt; yours has a key and a client."""
    return Parrot()


@inbox.around_attempt(kinds=["think"])
def patient(job: Job) -> Generator[None, Any, Snooze | None]:  # noqa: ARG001
    """Whoever is told to wait waits, at no cost."""
    try:
        yield
    except Busy as busy:
        return Snooze(busy.seconds, str(busy))
    return None


LIMITS = Limits(max_running=4, max_per_key=1, rate_per_second=20)


@inbox.handler("think", key="talk:{talk}", limits=LIMITS, timeout_seconds=120)
async def think(job: Job, talk: int, step: int, model: Model = injected) -> None:
    """One call of the model, and what follows from it."""
    async with job.connection() as conn:
        found = await conn.execute("SELECT who, said FROM messages WHERE talk = %s ORDER BY id LIMIT 200", [talk])
        said = await found.fetchall()
    answer = await model.answer(said, idempotency_key=str(job.id))  # a paid call repeated after a crash is charged once
    async with job.fenced() as tx:
        await tx.execute("INSERT INTO messages (talk, who, said) VALUES (%s, 'agent', %s)", [talk, answer])
        if answer.startswith("tool: ") and step < STEPS_MAX:
            await use_tool.enqueue(tx, talk=talk, step=step, call=answer.removeprefix("tool: "))


@inbox.handler("use_tool", key="talk:{talk}")
def use_tool(job: Job, talk: int, step: int, call: str) -> None:
    """Run one tool; what it said and the next step commit together."""
    name, _, about = call.partition(" ")
    told = f"sunny in {about}" if name == "weather" else f"there is no tool {name}"
    with job.fenced() as tx:
        tx.execute("INSERT INTO messages (talk, who, said) VALUES (%s, 'tool', %s)", [talk, told])
        think.enqueue(tx, talk=talk, step=step + 1)


def ask(conn: Any, talk: int, text: str) -> None:
    """What a user says, and the agent's first step, in one transaction."""
    with conn.transaction():
        conn.execute("INSERT INTO messages (talk, who, said) VALUES (%s, 'user', %s)", [talk, text])
        think.enqueue(conn, talk=talk, step=1)


if __name__ == "__main__":
    with connect() as conn:
        conn.execute(TABLES)
        ask(conn, 1, "How is the weather in Berlin")
