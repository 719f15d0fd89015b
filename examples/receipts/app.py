"""Receipts with FastAPI and SQLAlchemy: a route that pays and enqueues in one transaction, and a worker beside it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import BigInteger
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import tenure.web
from tenure import Inbox, Job
from tenure.contrib.beside import Beside

DATABASE_URL = os.environ["TENURE_DATABASE_URL"]
engine = create_async_engine(DATABASE_URL.replace("postgresql://", "postgresql+asyncpg://", 1))
sessions = async_sessionmaker(engine, expire_on_commit=False)
inbox = Inbox()


class Base(DeclarativeBase):
    """The tables of the shop."""


class Order(Base):
    """Something that is to be paid."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    paid: Mapped[bool] = mapped_column(default=False)


class Receipt(Base):
    """Written once for an order."""

    __tablename__ = "receipts"
    order_id: Mapped[int] = mapped_column(primary_key=True)
    fence: Mapped[int] = mapped_column(BigInteger)


@inbox.handler("send_receipt", key="order:{order_id}")
async def send_receipt(job: Job, order_id: int) -> None:
    """The receipt and the end of the job commit together, or not at all."""
    async with job.fenced() as tx:
        await tx.execute("INSERT INTO receipts (order_id, fence) VALUES (%s, %s)", [order_id, job.fence])


async def transaction() -> AsyncIterator[AsyncSession]:
    """The transaction of a request: committed when the route returns, undone if it raises."""
    async with sessions.begin() as session:
        yield session


# scope="function": it is committed before the answer is sent, so nobody is told of what was not committed.
Transaction = Annotated[AsyncSession, Depends(transaction, scope="function")]
dashboard = tenure.web.app(access=tenure.web.local)  # on your machine; elsewhere give access=… of your own


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Open the dashboard and the worker before the first request, and drain after the last."""
    async with engine.begin() as conn:
        await conn.run_sync(Base.metadata.create_all)
    async with tenure.web.lifespan(dashboard), Beside(inbox, DATABASE_URL):
        yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)
app.mount("/tenure", dashboard)


@app.post("/orders/{order_id}/pay")
async def pay(order_id: int, session: Transaction) -> dict[str, str]:
    """Pay, and enqueue the receipt, in the transaction of the request."""
    order = await session.get(Order, order_id, with_for_update=True)
    if order is not None and order.paid:
        raise HTTPException(409, f"order {order_id} is paid already")
    session.add(order or Order(id=order_id, paid=True))
    sent = await send_receipt.using(idempotency_key=f"receipt-{order_id}").enqueue(session, order_id=order_id)
    return {"receipt": str(sent.id)}


@app.get("/orders/{order_id}")
async def show(order_id: int, session: Transaction) -> dict[str, bool]:
    """Whether it is paid, and whether its receipt is written."""
    found = await session.get(Order, order_id)
    return {"paid": bool(found and found.paid), "receipt": await session.get(Receipt, order_id) is not None}
