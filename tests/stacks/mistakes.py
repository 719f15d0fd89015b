"""Mistakes that a type checker finds before anything runs; `# wrong` marks each of them, and nothing else is one."""

from __future__ import annotations

import asyncpg
import psycopg
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from tenure import TICK, Cron, Inbox, Job, injected

inbox = Inbox()


@inbox.handler("send_receipt", key="order:{order_id}")
async def send_receipt(job: Job, order_id: int, note: str = "") -> dict[str, int]:
    return {"sent": order_id}


@inbox.handler("resize")
def resize(path: str, *, width: int) -> None: ...


def blocking(conn: psycopg.Connection, session: Session) -> None:
    send_receipt.enqueue(conn, order_id=1)
    send_receipt.enqueue(session, order_id=1, note="thanks")
    send_receipt.enqueue(conn, 1, note="thanks")
    resize.enqueue(conn, path="a.png", width=10)
    send_receipt.using(priority=5).enqueue(conn, order_id=1)
    send_receipt.row(order_id=1)
    sent = send_receipt.enqueue(conn, order_id=1)
    print(sent.id, sent.outcome)

    send_receipt.enqueue(conn, order=1)  # wrong: no such field
    send_receipt.enqueue(conn)  # wrong: order_id is missing
    send_receipt.enqueue(conn, order_id="1")  # wrong: a text
    send_receipt.enqueue(session, order_id=1, note=2)  # wrong: a number
    send_receipt.enqueue(conn, 1, "thanks", 3)  # wrong: too many
    send_receipt.enqueue(conn, order_id=1, job=None)  # wrong: the job comes from the worker
    send_receipt.using(priority=5).enqueue(conn, order="1")  # wrong: no such field
    send_receipt.using(priority=5).enqueue(conn, order_id=None)  # wrong: no number
    send_receipt.using(idempotncy_key="k").enqueue(conn, order_id=1)  # wrong: no such option
    send_receipt.using(delay_seconds="5").enqueue(conn, order_id=1)  # wrong: a text
    send_receipt.row(order_id=1.5)  # wrong: no whole number
    send_receipt.row()  # wrong: order_id is missing
    resize.enqueue(conn, "a.png", 10)  # wrong: width has a name
    resize.enqueue(conn, path=b"a.png", width=10)  # wrong: bytes
    send_receipt.enqueue(None, order_id=1)  # wrong: no connection
    send_receipt.enqueue("postgresql://", order_id=1)  # wrong: a text
    print(send_receipt.enqueue(conn, order_id=1).row)  # wrong: it has no row
    send_receipt(order_id=1)  # wrong: called without a job


async def awaiting(conn: psycopg.AsyncConnection, session: AsyncSession, pg: asyncpg.Connection) -> None:
    await send_receipt.enqueue(conn, order_id=1)
    await send_receipt.enqueue(session, order_id=1)
    await send_receipt.enqueue(pg, order_id=1)
    sent = await send_receipt.enqueue(conn, order_id=1)
    print(sent.id)

    await send_receipt.enqueue(conn, order_id="1")  # wrong: a text
    await send_receipt.enqueue(session, order=1)  # wrong: no such field
    print(send_receipt.enqueue(conn, order_id=1).id)  # wrong: not awaited
    await resize.enqueue(session, path="a.png")  # wrong: width is missing


async def handling(job: Job, session: AsyncSession) -> None:
    async with job.fenced() as tx:
        await tx.execute("SELECT 1")
    async with job.fenced(session) as lent:
        lent.add(object())
        lent.no_such_thing()  # wrong: it is the session that was given


@inbox.handler("report", result=True)
def report(day: str, *, copies: int = 1, session: Session = injected) -> list[int]:
    return [copies]


def scheduling() -> None:
    inbox.schedule("nightly", "30 2 * * *", report, day="today")
    inbox.schedule("nightly", Cron("30 2 * * *", zone="Europe/Berlin"), report, day=TICK, copies=2)
    inbox.schedule("nightly", "30 2 * * *", report, zone="Europe/Berlin", day="today")

    inbox.schedule("nightly", "30 2 * * *", report)  # wrong: day is missing
    inbox.schedule("nightly", "30 2 * * *", report, dya="today")  # wrong: no such field
    inbox.schedule("nightly", Cron("30 2 * * *"), report, day=7)  # wrong: a number
    inbox.schedule("nightly", Cron("30 2 * * *"), report, day=TICK, copies="2")  # wrong: a text
    inbox.schedule("nightly", 230, report, day="today")  # wrong: no cron expression


async def results(conn: psycopg.Connection) -> None:
    sent = report.enqueue(conn, day="today")
    ended = await report.result(sent, timeout_seconds=5)
    numbers = ended.value or []
    print(numbers[0] + 1)
    asked = send_receipt.result_blocking(sent.id, timeout_seconds=5).value
    print(asked["sent"] + 1 if asked else 0)

    print(numbers[0].upper())  # wrong: a number
    print(asked["sent"].upper() if asked else 0)  # wrong: a number
    await report.result("an id", timeout_seconds=5)  # wrong: no id
    await report.result(sent)  # wrong: for how long?
