"""Django with two databases: a row is in the transaction of the connection that it was given, and of no other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from django.db import connections, transaction
from psycopg.conninfo import make_conninfo

from stacks.held import django_alias
from tenure.app.handler import Handler
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.postgres import migrate
from world import World

pytestmark = pytest.mark.one_server


class StepFails(Exception):
    """What the user's own code raises."""


@dataclass(frozen=True)
class Shop:
    """Orders in one database of Django's, orders and Tenure's rows in a second."""

    first: str
    second: str
    receipt: Handler[..., ..., Any]

    def order(self, alias: str, id: int) -> None:
        with connections[alias].cursor() as cursor:
            cursor.execute("INSERT INTO orders_of_two (id) VALUES (%s)", [id])

    def enqueue(self, id: int) -> str:
        """A row beside the orders of the second database."""
        made = self.receipt.using(idempotency_key=f"receipt-{id}").enqueue(connections[self.second], order_id=id)
        return str(made.outcome)

    def orders(self, alias: str) -> list[int]:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT id FROM orders_of_two ORDER BY id")
            return [id for (id,) in cursor.fetchall()]

    def rows(self) -> list[int]:
        with connections[self.second].cursor() as cursor:
            cursor.execute("SELECT (payload->>'order_id')::int FROM tenure.inbox ORDER BY 1")
            return [id for (id,) in cursor.fetchall()]


@pytest.fixture(scope="module")
def second_url(server_url: str) -> Iterator[str]:
    """A database beside the first, with Tenure's tables under their usual name."""
    name = f"second_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
    url = make_conninfo(server_url, dbname=name)
    with psycopg.connect(url, autocommit=True) as conn:
        migrate.apply(conn)
        conn.execute("CREATE TABLE orders_of_two (id int PRIMARY KEY)")
    yield url
    connections[django_alias(url).alias].close()
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def shop(world: World, second_url: str) -> Iterator[Shop]:
    inbox = Inbox()

    @inbox.handler("send_receipt", key="order:{order_id}")
    def send_receipt(job: Job, order_id: int) -> None: ...

    world.sql("CREATE TABLE IF NOT EXISTS public.orders_of_two (id int PRIMARY KEY)")
    first, second = django_alias(world.url), django_alias(second_url)
    with second.cursor() as cursor:
        cursor.execute("DELETE FROM orders_of_two")
        cursor.execute("DELETE FROM tenure.live")
    yield Shop(first.alias, second.alias, send_receipt)
    first.close()
    second.close()
    world.sql("DROP TABLE public.orders_of_two")


@contextmanager
def undone(alias: str) -> Iterator[None]:
    """A block of atomic() that ends with an error of the user's own."""
    with suppress(StepFails), transaction.atomic(using=alias):
        yield
        raise StepFails


def test_the_row_commits_with_the_second_database_whatever_becomes_of_the_first(shop: Shop) -> None:
    with undone(shop.first):
        shop.order(shop.first, 1)
        with transaction.atomic(using=shop.second):
            shop.order(shop.second, 1)
            assert shop.enqueue(1) == "enqueued"
    assert (shop.orders(shop.first), shop.orders(shop.second), shop.rows()) == ([], [1], [1])


def test_the_row_goes_with_the_second_database_while_the_first_commits(shop: Shop) -> None:
    with transaction.atomic(using=shop.first):
        shop.order(shop.first, 2)
        with undone(shop.second):
            shop.order(shop.second, 2)
            shop.enqueue(2)
    assert (shop.orders(shop.first), shop.orders(shop.second), shop.rows()) == ([2], [], [])


def test_a_savepoint_of_the_second_database_takes_its_row_along_and_no_other(shop: Shop) -> None:
    with transaction.atomic(using=shop.second):
        shop.enqueue(3)
        with undone(shop.second):
            shop.enqueue(4)
        assert shop.enqueue(3) == "duplicate"
    assert shop.rows() == [3]


def test_in_a_transaction_of_the_first_alone_the_row_commits_at_once(shop: Shop) -> None:
    """The control: what counts is whose connection is given, not in which block the call stands."""
    with undone(shop.first):
        shop.order(shop.first, 6)
        shop.enqueue(6)
    assert (shop.orders(shop.first), shop.rows()) == ([], [6])
