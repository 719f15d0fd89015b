"""The shop, tested without a worker."""

from django.test import TestCase

from tenure import IdempotencyConflict
from tenure.contrib.django.test import run_pending

from .models import Order, Receipt
from .tasks import notify


class Pay(TestCase):
    """What a customer sees, and what the workers do."""

    def test_two_payments_make_one_receipt(self):
        """A duplicate is answered with the first row."""
        first, again = self.client.post("/orders/9182/pay").json(), self.client.post("/orders/9182/pay").json()
        self.assertEqual((first["outcome"], again["outcome"]), ("enqueued", "duplicate"))
        self.assertEqual([done.kind for done in run_pending()], ["send_receipt", "shop.tasks.notify"])
        self.assertEqual(Receipt.objects.get().order_id, 9182)

    def test_what_fails_is_not_enqueued(self):
        """The notice is refused after the order and the receipt were written: all three are undone."""
        notify.using(idempotency_key="notice-1").enqueue(2)  # a key that somebody used for something else
        with self.assertRaises(IdempotencyConflict):
            self.client.post("/orders/1/pay")
        self.assertEqual([done.kind for done in run_pending()], ["shop.tasks.notify"])
        self.assertEqual(Order.objects.count(), 0)
