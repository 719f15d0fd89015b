"""The shop, tested as its author would: inside TestCase, with nothing but Django's own connection."""

from concurrent.futures import ThreadPoolExecutor

from django.db import DatabaseError, connection, connections
from django.test import TestCase, TransactionTestCase

from tenure import Completed, Retry
from tenure.contrib.django.hygiene import clean
from tenure.contrib.django.test import run_pending

from .jobs import break_down, count_orders, send_receipt
from .models import Order, Receipt


class Shop(TestCase):
    """Handlers are claimed, run and settled inside the transaction that TestCase rolls back."""

    def test_a_receipt_is_written_in_a_fenced_block(self):
        order = Order.objects.create(paid=True)
        send_receipt.enqueue(connection, order_id=order.pk)
        (done,) = run_pending()
        self.assertEqual((done.kind, done.payload, done.outcome), ("send_receipt", {"order_id": order.pk}, Completed()))
        self.assertEqual(Receipt.objects.count(), 1)
        self.assertEqual(run_pending(), [])

    def test_what_fails_in_the_middle_leaves_nothing(self):
        send_receipt.enqueue(connection, order_id=404)
        with connection.constraint_checks_disabled():
            Receipt.objects.create(order_id=404)  # the handler's own would be the second
        (done,) = run_pending(raises=False)
        self.assertIsInstance(done.outcome, Retry)
        self.assertIn("IntegrityError", done.outcome.error)
        Receipt.objects.all().delete()

    def test_an_async_handler_uses_the_same_connection(self):
        Order.objects.create()
        count_orders.enqueue(connection)
        self.assertEqual(run_pending()[0].outcome, Completed("1"))

    def test_an_error_is_raised_or_ends_the_attempt(self):
        break_down.enqueue(connection)
        with self.assertRaisesMessage(ValueError, "broken"):
            run_pending()

    def test_rows_of_the_test_before_are_gone(self):
        self.assertEqual(run_pending(), [])


def lose_connection():
    """As a server that restarts, or a firewall that forgets, would do it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def ask():
    """Whether the connection of this thread works."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


class Hygiene(TransactionTestCase):
    """A thread of a worker goes on after its connection was lost."""

    available_apps = ["tenure.contrib.django", "shop"]

    def after_a_loss(self, around):
        """What the next handler in the same thread meets."""
        with ThreadPoolExecutor(1) as thread:
            self.assertIsInstance(thread.submit(around(lose_connection)).exception(), DatabaseError)
            met = thread.submit(around(ask)).exception()
            thread.submit(connections.close_all).result()
        return met

    def test_the_next_handler_has_a_new_connection(self):
        self.assertIsNone(self.after_a_loss(clean))

    def test_without_it_the_next_handler_would_fail(self):
        self.assertIsInstance(self.after_a_loss(lambda function: function), DatabaseError)
