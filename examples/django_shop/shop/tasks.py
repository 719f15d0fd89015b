"""A task as Django has them, run by the same workers."""

try:
    from django.tasks import task
except ImportError:  # before Django 6: the backport
    from django_tasks import task


@task(max_attempts=3)
def notify(order_id: int) -> str:
    """What an e-mail would say."""
    return f"order {order_id} is paid"
