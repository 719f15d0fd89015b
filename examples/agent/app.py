"""An agent: it asks a model, uses tools, and lets a person approve what is risky. What it knows survives its worker.

    tenure dev examples/agent/app.py             # or: tenure worker examples/agent/app.py
    python examples/agent/app.py                 # in another terminal: one question
    tenure flows                                 # its id
    tenure flow listen ID                        # what it says while it works
    tenure flow signal ID approval '{"ok": true}'

The model here is a script, so that nothing leaves this machine: put your own in `ask_model`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import psycopg

from tenure import Fail, Fixed, Inbox
from tenure.settings import load
from tenure.shapes.flow import TIMED_OUT, Flow, Flows, Tries

inbox = Inbox()
flows = Flows(inbox)

Message = dict[str, Any]
TRIES = Tries(4, Fixed(1))


async def ask_model(messages: list[Message], say: Callable[[str], None]) -> Message:
    """What a model would say: first it looks something up, then it wants to write a mail, then it is done."""
    say(f"thinking about {len(messages)} messages\n")  # people see it at once: tenure flow listen ID
    used = [message["tool"] for message in messages if message["role"] == "tool"]
    if not used:
        return {
            "role": "model",
            "tools": [{"name": "search", "word": word, "risky": False} for word in ("lamp", "desk")],
        }
    if "mail" not in used:
        return {"role": "model", "tools": [{"name": "mail", "word": "to all customers", "risky": True}]}
    found = ", ".join(message["found"] for message in messages if message["role"] == "tool")
    return {"role": "model", "content": f"Done: {found}."}


async def run_tool(tool: Message) -> Message:
    """One tool; a real one sends step_key() along, so that a second call does nothing."""
    return {"role": "tool", "tool": tool["name"], "found": f"{tool['name']} {tool['word']}"}


@flows.workflow("research", name="ask:{ask_id}", queue="agents")
async def research(flow: Flow, ask_id: str, question: str) -> str | Fail:
    """Every answer of the model and of its tools is a step: none is asked for twice."""
    messages: list[Message] = [{"role": "user", "content": question, "ask": ask_id}]
    for turn in flow.turns(40):
        reply = await flow.step(
            "model", ask_model, messages, say=flow.say, timeout_seconds=600, retry=Tries(4, Fixed(1))
        )
        messages.append(reply)
        flow.show("turn", turn + 1)
        tools = reply.get("tools", [])
        if not tools:
            return str(reply["content"])
        if any(tool["risky"] for tool in tools):
            flow.show("asks", f"may it {tools[0]['name']} {tools[0]['word']}?")
            word = await flow.wait_for("approval", timeout_seconds=3 * 86_400)
            if word is TIMED_OUT or not word["ok"]:
                return Fail("not approved")
        messages += await flow.parallel(*(_use(flow, tool) for tool in tools))
    return Fail("no answer")


async def _use(flow: Flow, tool: Message) -> Message:
    used: Message = await flow.step(tool["name"], run_tool, tool)
    return used


def ask(conn: Any, ask_id: str, question: str) -> UUID:
    """In the caller's transaction."""
    started: UUID = research.start(conn, ask_id=ask_id, question=question).id
    return started


def approve(conn: Any, ask_id: str, ok: bool) -> str:
    """A person says yes or no; twice is once."""
    send = partial(research.of(f"ask:{ask_id}").signal, conn, "approval", {"ok": ok})
    outcome: str = send(once="approval").outcome
    return outcome


def main() -> None:
    """One question."""
    with psycopg.connect(load().database_url or "", autocommit=True) as conn:
        ask(conn, "1", "Which lamps do we have, and who wants one?")


if __name__ == "__main__":
    main()
