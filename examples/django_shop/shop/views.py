"""Pay an order: it, its receipt and its notice are one transaction."""

from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from .jobs import send_receipt
from .models import Order
from .tasks import notify


@csrf_exempt
@require_POST
def pay(request: HttpRequest, order_id: int) -> JsonResponse:
    """No hook after the commit: what is rolled back was never enqueued."""
    with transaction.atomic():
        Order.objects.update_or_create(pk=order_id, defaults={"paid": True})
        sent = send_receipt.using(idempotency_key=f"receipt-{order_id}").enqueue(connection, order_id=order_id)
        notify.using(idempotency_key=f"notice-{order_id}").enqueue(order_id)
    return JsonResponse({"receipt": str(sent.id), "outcome": sent.outcome})
