"""The pages of Django's admin in a real browser: what is there, who may act, and what the audit keeps of it."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from contrib.django_site import Site, site_on
from faces.browser.conftest import WIDE
from guarantees.facts import until
from servers import available
from tenure import postgres, settle, verbs
from tenure.model.rows import Lane, NewRow

PEOPLE = """
from django.contrib.auth.models import Permission, User
User.objects.create_superuser("ann", password="ann")
bob = User.objects.create_user("bob", password="bob", is_staff=True)
User.objects.create_user("eve", password="eve", is_staff=True)
bob.user_permissions.add(*Permission.objects.filter(content_type__app_label="tenure", codename__startswith="view_"))
"""
ERROR = 'Traceback (most recent call last):\n  File "shop.py", line 1, in pay\nValueError: no such <card>\n'


@pytest.fixture(scope="module")
def admin(playwright: Any, started: Callable[[str], str]) -> Iterator[tuple[Site, str]]:
    """The project with two people and some rows, served; its address."""
    with site_on(started(available()[0]), f"admin{os.getpid()}") as site, socket.socket() as free:
        for words in (("migrate",), ("shell", "-c", PEOPLE)):
            done = site.manage(*words)
            assert done.returncode == 0, done.stderr
        _fill(site)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        server = site.start("runserver", "--noreload", f"127.0.0.1:{port}", SITE_DEBUG="yes")
        try:
            until(lambda: not socket.socket().connect_ex(("127.0.0.1", port)), "the project is served")
            yield site, f"http://127.0.0.1:{port}/admin/"
        finally:
            server.kill()
            server.wait()


def _fill(site: Site) -> None:
    with psycopg.connect(site.address, autocommit=True) as conn:
        for n in range(3):
            postgres.run(conn, verbs.enqueue(NewRow("charge", {"n": n}, key=f"card:{n}", queue="money")))
        for each in postgres.run(conn, verbs.claim("w1", 3, lanes=[Lane("money")])):
            postgres.run(conn, settle.dead_letter([each], [ERROR]))
        postgres.run(conn, verbs.enqueue(NewRow("send_receipt", {"order_id": 1}, key="order:1")))


@pytest.fixture
def enter(browser: Any, admin: tuple[Site, str]) -> Iterator[Callable[..., Any]]:
    """A page for a person who has logged in."""
    opened = []

    def entered(name: str, path: str = "") -> Any:
        context = browser.new_context(viewport={"width": WIDE, "height": 800})
        opened.append(context)
        context.set_default_timeout(90_000)
        page = context.new_page()
        page.goto(f"{admin[1]}login/?next=/admin/{path}")
        page.get_by_label("Username").fill(name)
        page.get_by_label("Password").fill(name)
        page.get_by_role("button", name="Log in").click()
        return page

    yield entered
    for context in opened:
        context.close()


def test_rows_are_listed_and_found_by_a_filter(enter: Any, playwright: Any) -> None:
    page = enter("ann", "tenure/tenurerow/")
    rows = page.locator("#result_list tbody tr")
    playwright.expect(rows).to_have_count(4)
    playwright.expect(rows.first).to_contain_text("send_receipt")
    page.locator("#searchbar").fill("kind:charge key:card:2")
    page.get_by_role("button", name="Search").click()
    playwright.expect(rows).to_have_count(1)
    playwright.expect(rows).to_contain_text("ValueError: no such <card>")
    page.locator("#searchbar").fill("staus:dead_letter")
    page.get_by_role("button", name="Search").click()
    playwright.expect(page.locator(".messagelist .error")).to_contain_text("staus")


def test_a_row_says_what_it_waits_for_and_who_tried(enter: Any, playwright: Any) -> None:
    page = enter("bob", "tenure/tenurerow/?status=dead_letter")
    page.locator("#result_list tbody tr a").first.click()
    shown = page.locator("#content")
    playwright.expect(shown).to_contain_text("dead letter")
    playwright.expect(shown).to_contain_text("w1")
    playwright.expect(shown.locator("input[type=text], textarea")).to_have_count(0)


def test_who_may_redrives_after_a_question_and_the_audit_names_the_person(
    enter: Any, playwright: Any, admin: tuple[Site, str]
) -> None:
    page = enter("ann", "tenure/deadletter/")
    page.locator("#result_list tbody input.action-select").first.check()
    page.locator("select[name=action]").select_option("redrive")
    page.get_by_role("button", name=re.compile("Go|Run")).click()
    playwright.expect(page.locator("#content h1")).to_have_text("Redrive 1 row?")
    page.get_by_label("Reason").fill("card renewed")
    page.get_by_role("button", name="Redrive").click()
    playwright.expect(page.locator(".messagelist .success")).to_contain_text("1 of 1 rows redriven; audit line 1")
    playwright.expect(page.locator("#result_list tbody tr")).to_have_count(2)
    audit = "SELECT actor, via, verb, reason, rows FROM tenure.audit WHERE verb = 'redrive'"
    assert admin[0].sql(audit) == [("ann", "django", "redrive", "card renewed", 1)]


def test_who_may_only_look_is_offered_nothing_and_is_refused(
    enter: Any, playwright: Any, admin: tuple[Site, str]
) -> None:
    page = enter("bob", "tenure/deadletter/")
    playwright.expect(page.locator("#result_list tbody tr")).not_to_have_count(0)
    playwright.expect(page.locator("select[name=action]")).to_have_count(0)
    page.goto(f"{admin[1]}tenure/tenurequeue/")
    playwright.expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    before = admin[0].sql("SELECT count(*) FROM tenure.audit")
    token = next(each["value"] for each in page.context.cookies() if each["name"] == "csrftoken")
    ids = [str(id) for (id,) in admin[0].sql("SELECT id FROM tenure.dead")]
    form = {"csrfmiddlewaretoken": token, "action": "redrive", "confirmed": "yes", "_selected_action": ids[0]}
    page.request.post(f"{admin[1]}tenure/deadletter/", form=form)
    page.request.post(f"{admin[1]}tenure/tenurequeue/", form={**form, "queue": "money", "do": "pause"})
    assert admin[0].sql("SELECT count(*) FROM tenure.audit") == before


def test_who_has_no_right_to_look_sees_nothing(enter: Any, playwright: Any) -> None:
    for path in ("tenurerow", "deadletter", "tenurequeue"):
        page = enter("eve", f"tenure/{path}/")
        playwright.expect(page.locator("body")).to_contain_text("403 Forbidden")


def test_a_queue_is_paused_and_resumed(enter: Any, playwright: Any, admin: tuple[Site, str]) -> None:
    page = enter("ann", "tenure/tenurequeue/")
    line = page.locator("#result_list tbody tr", has_text="money")
    line.get_by_role("button", name="Pause").click()
    playwright.expect(page.locator(".messagelist .success")).to_contain_text("'money' paused")
    playwright.expect(line).to_contain_text("paused")
    assert admin[0].sql("SELECT paused FROM tenure.queues WHERE queue = 'money'") == [(True,)]
    line.get_by_role("button", name="Resume").click()
    playwright.expect(line).to_contain_text("runs")
