"""Rows and queues as models of Django, for its admin: read-only, and not Django's to create.

Use them to look. To change a row takes a verb, which keeps tokens, counts and the audit right.
"""

from __future__ import annotations

from django.db import models

from ...errors import BadSettings
from ...settings import DEFAULT_SCHEMA
from . import conf


def _table(name: str) -> str:
    try:
        schema = conf.schema()
    except BadSettings:  # a system check says so in one sentence; models are imported before it
        schema = DEFAULT_SCHEMA
    return f'"{schema}"."{name}"'


class TenureRow(models.Model):
    """A row in any state, from the view `inbox`."""

    id = models.UUIDField(primary_key=True)
    kind = models.TextField()
    status = models.TextField()
    queue = models.TextField()
    key = models.TextField(db_column="partition_key")
    priority = models.SmallIntegerField()
    attempts = models.IntegerField()
    max_attempts = models.IntegerField()
    available_at = models.DateTimeField("due at")
    created_at = models.DateTimeField("enqueued at")
    claimed_by = models.TextField("worker", null=True)
    lease_expires_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    last_error = models.TextField(null=True)
    idempotency_key = models.TextField(null=True)

    class Meta:
        """In the order of their ids, which is that of their making."""

        managed = False
        db_table = _table("inbox")
        ordering = ("-id",)
        verbose_name = "row"
        default_permissions = ("view",)
        permissions = (("operate_row", "Can redrive and cancel rows, and pause queues"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class Ended(models.Manager):
    """Only what ended badly."""

    def get_queryset(self) -> models.QuerySet:
        """Failed rows and dead letters."""
        return super().get_queryset().filter(status__in=("failed", "dead_letter"))


class DeadLetter(TenureRow):
    """A row that ended badly and waits for an operator."""

    objects = Ended()

    class Meta:
        """The same table."""

        proxy = True
        verbose_name = "dead letter"
        verbose_name_plural = "dead letters and failed rows"
        default_permissions = ("view",)


class TenureQueue(models.Model):
    """What somebody has set for a queue."""

    queue = models.TextField(primary_key=True)
    paused = models.BooleanField()

    class Meta:
        """The table has more columns, which have their own command: `tenure queues limit`."""

        managed = False
        db_table = _table("queues")
        verbose_name = "queue"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return str(self.queue)
