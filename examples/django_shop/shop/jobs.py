"""The handlers of the shop."""

from django.db import connection

from tenure import Inbox, Job

inbox = Inbox()


@inbox.handler("send_receipt", key="order:{order_id}")
def send_receipt(job: Job, order_id: int) -> None:
    """The receipt and the end of the job commit together, or not at all."""
    from .models import Receipt

    with job.fenced(connection):
        Receipt.objects.create(order_id=order_id, fence=job.fence)
