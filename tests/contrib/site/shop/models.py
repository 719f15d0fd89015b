"""Orders and their receipts."""

from django.db import models


class Order(models.Model):
    """Something that is to be paid."""

    paid = models.BooleanField(default=False)


class Receipt(models.Model):
    """What the handler writes, once for an order."""

    order = models.OneToOneField(Order, on_delete=models.CASCADE)
