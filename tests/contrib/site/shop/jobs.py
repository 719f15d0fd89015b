"""The handlers of the shop."""

from django.db import connection

from tenure import Inbox, Job

inbox = Inbox()


@inbox.handler("send_receipt", key="order:{order_id}")
def send_receipt(job: Job, order_id: int) -> None:
    """Write the receipt and end the job, both or neither."""
    from .models import Receipt

    with job.fenced(connection):
        Receipt.objects.create(order_id=order_id)


@inbox.handler("count_orders", ordered=True, key="count", result=True)
async def count_orders() -> int:
    """An async handler that asks the ORM."""
    from .models import Order

    return await Order.objects.acount()


@inbox.handler("break", max_attempts=2)
def break_down() -> None:
    """Never works."""
    raise ValueError("broken")
