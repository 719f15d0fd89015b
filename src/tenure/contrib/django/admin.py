"""Pages of Django's admin: rows, dead letters and queues, to read; redrive and cancel for those who may, audited."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join

from ...errors import TenureError
from ...model.filter import IDS_MAX, Filter, parse
from ...operator_verbs import OPERATOR_VERBS
from ...verbs import questions, search
from . import acting, conf
from .models import DeadLetter, TenureQueue, TenureRow

COUNT_MAX = 10_001
MAY = "tenure.operate_row"


class Bounded(Paginator):
    """Counts no further than some thousands, however many rows there are."""

    @cached_property
    def count(self) -> int:
        """How many, or COUNT_MAX."""
        return int(self.object_list.order_by()[:COUNT_MAX].count())


class ByStatus(admin.SimpleListFilter):
    """The states by name, without asking the database which there are."""

    title, parameter_name = "status", "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Every state that a row has in the table."""
        known = ("pending", "processing", "completed", "failed", "dead_letter", "cancelled")
        return [(each, each.replace("_", " ")) for each in known]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Those of the chosen one."""
        return queryset.filter(status=self.value()) if self.value() else queryset


def _action(verb: str) -> Any:
    told = OPERATOR_VERBS[verb]

    @admin.action(permissions=["operate"], description=f"{told.button} the chosen rows")
    def act(pages: RowAdmin, request: HttpRequest, queryset: Any) -> Any:
        ids = tuple(queryset.order_by("-id").values_list("pk", flat=True)[:IDS_MAX])
        if "confirmed" not in request.POST:
            return pages.ask(request, queryset, verb, ids)
        try:
            done = acting.act(verb, Filter(ids=ids), request.user.get_username(), request.POST.get("reason", ""))
        except TenureError as error:
            messages.error(request, str(error))
            return None
        left = f", {done.skipped} left as they were" if done.skipped else ""
        messages.success(request, f"{done.changed} of {len(ids)} rows {told.past}{left}; audit line {done.action}")
        return None

    act.__name__ = verb
    return act


class RowAdmin(admin.ModelAdmin):
    """Rows, the newest first; the search box takes a filter of Tenure."""

    list_display: Any = ("kind", "status", "queue", "key", "tries", "available_at", "created_at", "error")
    list_display_links = ("kind",)
    list_filter: Any = (ByStatus,)
    list_per_page = 50
    search_fields = ("kind",)
    search_help_text = "A filter of Tenure, e.g. kind:send_receipt key:order:9182 error:timeout attempts:>3"
    sortable_by = ()
    paginator = Bounded
    show_full_result_count = False
    actions: Any = (_action("redrive"), _action("cancel"))
    fields = (
        *("id", "kind", "status", "now", "queue", "key", "priority", "tries", "created_at", "available_at"),
        *("claimed_by", "lease_expires_at", "finished_at", "idempotency_key", "tape", "last_error"),
    )
    readonly_fields = ("now", "tries", "tape")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Rows are enqueued by code."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows are changed by verbs."""
        return False

    has_delete_permission = has_change_permission

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Who may redrive and cancel."""
        return bool(request.user.has_perm(MAY))

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """By a filter, in bounded time; one that cannot be read finds nothing, and a message says why."""
        if not search_term.strip():
            return queryset, False
        try:
            found = acting.asked(search.ids(parse(search_term), n=IDS_MAX))
        except TenureError as error:
            messages.error(request, str(error))
            return queryset.none(), False
        return queryset.filter(pk__in=found.ids), False

    def ask(self, request: HttpRequest, queryset: Any, verb: str, ids: tuple[Any, ...]) -> TemplateResponse:
        """The page between a choice and its deed, with the exact number."""
        told = OPERATOR_VERBS[verb]
        context = {
            **self.admin_site.each_context(request),
            "title": f"{told.button} {len(ids)} row{'s' * (len(ids) != 1)}?",
            "does": told.does,
            "verb": verb,
            "button": told.button,
            "ids": ids,
            "more": len(ids) == IDS_MAX,
            "opts": self.model._meta,
        }
        return TemplateResponse(request, "admin/tenure/confirm.html", context)

    @admin.display(description="attempts")
    def tries(self, row: TenureRow) -> str:
        """How many of how many."""
        return f"{row.attempts} of {row.max_attempts}"

    @admin.display(description="last error")
    def error(self, row: TenureRow) -> str:
        """The line that says what went wrong."""
        return acting.line_of(row.last_error)

    @admin.display(description="what now")
    def now(self, row: TenureRow) -> str:
        """Who holds it, or what it waits for."""
        return str(acting.asked(questions.why(row.pk)))

    @admin.display(description="attempts so far")
    def tape(self, row: TenureRow) -> str:
        """The lease tape."""
        lines = (
            (each.lease_generation, each.worker, _clock(each.claimed_at), _clock(each.ended_at), each.outcome)
            for each in acting.asked(questions.tape(row.pk))
        )
        head = "<table><tr><th>token</th><th>worker</th><th>claimed</th><th>ended</th><th>how</th></tr>{}</table>"
        body = "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>"
        table: str = format_html(head, format_html_join("", body, lines))
        return table


def _clock(at: datetime | None) -> str:
    return f"{timezone.localtime(at) if timezone.is_aware(at) else at:%Y-%m-%d %H:%M:%S}" if at else ""


class DeadLetterAdmin(RowAdmin):
    """The same, of what ended badly."""

    list_filter = ()
    actions = (_action("redrive"),)
    list_display = ("kind", "status", "queue", "key", "tries", "finished_at", "error")


class QueueAdmin(admin.ModelAdmin):
    """Every queue with its rows by status; one page, with a button to pause each."""

    has_add_permission = RowAdmin.has_add_permission
    has_change_permission = RowAdmin.has_change_permission
    has_delete_permission = RowAdmin.has_change_permission

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """The page, or what its button does."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        may = request.user.has_perm(MAY)
        if request.method == "POST" and may:
            try:
                messages.success(
                    request,
                    acting.turn(request.POST.get("queue", ""), request.POST.get("do", ""), request.user.get_username()),
                )
            except TenureError as error:
                messages.error(request, str(error))
            return redirect(request.path)
        context = {
            **self.admin_site.each_context(request),
            "title": "Queues",
            "queues": acting.queues(),
            "may": may,
            "opts": self.model._meta,
            "schema": conf.schema(),
        }
        return TemplateResponse(request, "admin/tenure/queues.html", context)


admin.site.register(TenureRow, RowAdmin)
admin.site.register(DeadLetter, DeadLetterAdmin)
admin.site.register(TenureQueue, QueueAdmin)
