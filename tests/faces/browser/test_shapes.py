"""The pages of the shapes: webhooks, flows, batches, projections, outboxes; what each shows and what it can do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import expect

from faces.browser.conftest import Visit, faults
from faces.browser.shop import Shop
from faces.browser.yard import Yard, open_yard
from tenure.model.declaration import Declaration
from tenure.model.journal import NewEvent
from tenure.model.rows import NewRow
from tenure.verbs import batches, endpoints, lifecycle, steps
from tenure.verbs.journal import append
from tenure.verbs.kinds import declare
from tenure.verbs.projections import plan_projection
from tenure.verbs.steps import Parking, Recording, Step, Wait

HOOK, BAD = UUID(int=5), UUID(int=6)
URL = "https://acme.example/hook"


@pytest.fixture(scope="module")
def yard(shop: Shop) -> Iterator[Yard]:
    """A yard for these pages."""
    with open_yard(shop) as opened:
        yield opened


def test_an_endpoint_shows_its_calls_is_paused_and_sent_to_again_and_no_secret_is_shown(
    visit: Visit, yard: Yard
) -> None:
    world = yard.world
    world.run(endpoints.add_endpoint(HOOK, "acme", f"{URL}?key=hush", ["order.*"], "whsec_hush"))
    world.run(endpoints.add_endpoint(BAD, "bolt", "https://bolt.example/in", ["*"], "whsec_hush"))
    world.sql(
        "UPDATE endpoints SET failures = 5, failing_since = clock_timestamp() - interval '1 hour', "
        "open_until = clock_timestamp() + interval '1 hour', note = 'ConnectTimeout' WHERE id = %s",
        BAD,
    )
    sent = world.run(endpoints.send_webhook("acme", "order.paid", b"{}", queue="webhooks")).webhook_id
    for endpoint, status, ms in ((HOOK, 500, 120), (HOOK, 200, 20), (BAD, None, 5000)):
        world.sql(
            "INSERT INTO deliveries (row_id, fence_token, attempt, endpoint_id, webhook_id, status, ms, address, note) "
            "VALUES (new_id(), 1, 1, %s, %s, %s, %s, '203.0.113.7', 'what the server said')",
            *(endpoint, sent, status, ms),
        )
    page = visit("hooks", url=yard.url)
    good, bad = (page.get_by_role("row").filter(has_text=name) for name in ("acme.example", "bolt.example"))
    for told in ("acme", "active", "200 500", "20 ms", "120 ms"):
        expect(good).to_contain_text(told)
    for told in ("bolt", "circuit open", "none", "5,000 ms"):
        expect(bad).to_contain_text(told)
    assert faults(page) == []
    page.set_viewport_size({"width": 1280, "height": 860})
    good.get_by_role("switch").click()
    expect(page.get_by_role("switch", name=f"Endpoint {URL}?…: paused")).to_be_visible()
    assert yard.deeds("pause_endpoint")[0][2] == str(HOOK)
    good.get_by_role("link").click()
    expect(page).to_have_url(f"{yard.url}/hooks/{HOOK}")
    expect(page.get_by_role("row").filter(has_text="order.paid")).to_have_count(2)
    expect(page.get_by_text("what the server said")).to_have_count(2)
    assert faults(page) == []
    page.set_viewport_size({"width": 1280, "height": 860})
    page.get_by_role("button", name=f"Resend {sent}").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Resend").click()
    expect(page.get_by_text("It will be sent again.")).to_be_visible()
    page.get_by_role("button", name="Send a test").click()
    expect(page.get_by_text("A test is on its way.")).to_be_visible()
    expect(page.get_by_text("3 rows")).to_be_visible()
    assert "hush" not in page.content()
    assert world.sql("SELECT count(*) FROM live WHERE kind = 'webhook'") == [(3,)]


def test_a_flow_is_a_graph_and_takes_a_signal(visit: Visit, yard: Yard) -> None:
    world = yard.world
    id = world.enqueue("checkout", headers={"tenure-flow": "checkout", "tenure-version": "1"})
    (job,) = [each for each in world.claim("yard", 20) if each.id == id]
    world.run(steps.record([Recording(job, 1, [Step("", 0, "charge", "done", result="7")])]))
    world.run(steps.park([Parking(job, [Wait("", 1, "wait:shipped", seconds=3600.0)])]))
    page = visit("flows", url=yard.url)
    expect(page.get_by_role("row").filter(has_text="checkout")).to_contain_text("shipped")
    page.get_by_role("link", name="checkout").first.click()
    expect(page.get_by_text("charge")).to_be_visible()
    assert faults(page) == []
    page.set_viewport_size({"width": 1280, "height": 860})
    page.get_by_label("Name").fill("shipped")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_text("shipped was sent.")).to_be_visible()
    assert yard.deeds("signal")[0][2] == f"{id} shipped"


def test_a_batch_shows_how_far_it_is_and_which_rows_failed(visit: Visit, yard: Yard) -> None:
    world = yard.world
    made = world.run(batches.open_group([NewRow("part")] * 3, name="nightly"))
    job = next(each for each in world.claim("yard", 50) if each.kind == "part")
    world.fail(job.lease, "no such picture")
    page = visit("batches", url=yard.url)
    expect(page.get_by_role("row").filter(has_text="nightly")).to_contain_text("2 to go")
    page.get_by_role("link", name="nightly").click()
    expect(page).to_have_url(f"{yard.url}/batches/{made.id}")
    expect(page.get_by_role("row").filter(has_text="no such picture")).to_contain_text("failed")
    assert faults(page) == []


def test_a_projection_shows_what_stopped_it_and_is_paused(visit: Visit, yard: Yard) -> None:
    world = yard.world
    world.run(plan_projection("totals", shards=2, like=None))
    world.run(append("order:1", [NewEvent("order.paid")]))
    world.sql("UPDATE checkpoints SET state = 'stopped', stopped_at = 1, error = 'no such customer' WHERE shard = 0")
    page = visit("projections", url=yard.url)
    expect(page.get_by_text("Shard 0 has stopped at event 1: no such customer.")).to_be_visible()
    assert faults(page) == []
    page.set_viewport_size({"width": 1280, "height": 860})
    page.get_by_role("switch", name="Projection totals").click()
    expect(page.get_by_role("switch", name="Projection totals: paused")).to_be_visible()
    assert yard.deeds("pause_projection")[0][2] == "totals"


def test_a_projection_whose_row_was_cancelled_is_brought_back(visit: Visit, yard: Yard) -> None:
    world = yard.world
    world.run(plan_projection("gone", shards=1, like=None))
    (ids,) = zip(*world.sql("SELECT row_id FROM checkpoints WHERE projection = 'gone'"), strict=True)
    world.run(lifecycle.cancel(list(ids)))
    page = visit("projections", url=yard.url)
    expect(page.get_by_role("row").filter(has_text="cancelled")).to_be_visible()
    assert faults(page) == []
    page.set_viewport_size({"width": 1280, "height": 860})
    page.get_by_role("button", name="Bring back: gone").click()
    expect(page.get_by_text("gone: 1 shard has a new row, which goes on where it was.")).to_be_visible()
    expect(page.get_by_role("button", name="Bring back: gone")).to_have_count(0)
    assert world.sql("SELECT count(*) FROM live WHERE kind = 'projection:gone'") == [(1,)]
    assert yard.deeds("resume_projection")[0][2] == "gone"


def test_an_outbox_shows_its_lag_and_since_when_its_broker_is_away(visit: Visit, yard: Yard) -> None:
    yard.world.enqueue("outbox:shop", queue="outbox:shop")
    page = visit("outbox", url=yard.url)
    expect(page.get_by_text("no worker serves it")).to_be_visible()
    yard.world.run(declare("other", [Declaration("outbox:shop", "outbox:shop")]))
    yard.hire("other", "outbox:shop", kinds=["outbox:shop"])
    expect(page.get_by_text("the broker is reached")).to_be_visible()
    away: dict[str, Any] = {"away_since": "2026-11-17T03:00:00Z", "error": "connection refused"}
    said: dict[str, Any] = {"outbox:shop": away}
    yard.hire("relay", "outbox:shop", **said)
    expect(page.get_by_text("the broker is away")).to_be_visible()
    expect(page.get_by_text("connection refused")).to_be_visible()
    assert faults(page) == []


def test_long_names_push_nothing_out_of_sight(visit: Visit, yard: Yard) -> None:
    world, long = yard.world, "n" * 128
    made = world.run(batches.open_group([NewRow("part")], name=long))
    tenant = UUID(int=7)
    world.run(endpoints.add_endpoint(tenant, long, "https://long.example/in", ["*"], "whsec_hush"))
    world.run(declare("long", [Declaration(f"outbox:{'o' * 96}", f"outbox:{'o' * 96}")]))
    for path in ("batches", f"batches/{made.id}", "hooks", f"hooks/{tenant}", "outbox"):
        page = visit(path, url=yard.url)
        expect(page.get_by_text("nnnnnnnn" if path != "outbox" else "oooooooo").first).to_be_visible()
        assert faults(page) == [], path
        page.set_viewport_size({"width": 1280, "height": 860})
        assert page.evaluate(WIDER) == 0, path


WIDER = (
    "() => Math.max(0, ...[...document.querySelectorAll('.scroll')].map((one) => one.scrollWidth - one.clientWidth))"
)
