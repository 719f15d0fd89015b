"""Operating over HTTP: actions on rows, queues, workers, schedules, dead letters and the overview."""

from __future__ import annotations

import re
from uuid import UUID

import pytest

from crew import eventually, working
from faces.web_tools import said, served
from tenure import verbs
from tenure.app.inbox import Inbox
from tenure.app.job import Job
from tenure.model.rows import Lane, NewRow
from tenure.verbs import fleet, history, questions, queues, schedules
from tenure.web.route import Why
from tenure.web.routes import routes
from world import World

pytestmark = pytest.mark.one_server


# -- actions


def test_a_verb_that_is_none_is_answered_with_the_verbs_and_the_one_that_was_meant(world: World) -> None:
    with served(world) as web:
        wrong = web.post("/api/actions", json={"verb": "discard", "filter": "kind:a"})
        assert said(wrong, 400)["error"] == (
            "body: verb 'discard' is unknown: did you mean 'delete'? There are redrive, retry, release, cancel, "
            "delete, erase"
        )
        wrong = web.post("/api/actions", json={"verb": "explode", "filter": "kind:a"})
        assert said(wrong, 400)["error"].startswith("body: verb 'explode' is unknown: there are redrive, ")


def test_an_action_counts_first_then_changes_exactly_that_and_is_in_the_audit(world: World) -> None:
    rows = [world.enqueue() for _ in range(3)]
    for job in world.claim(n=3):
        world.dead_letter(job.lease)
    asked = {"verb": "redrive", "filter": "status:dead_letter kind:send_receipt"}
    with served(world) as web:
        would = said(web.post("/api/actions", json=asked))
        assert (would["matched"], would["statuses"]["dead_letter"]["n"]) == (3, 3)
        assert world.count("dead") == 3
        assert said(web.post("/api/actions", json={**asked, "dry_run": False}), 400)["error"].startswith(
            "redrive needs `expect`"
        )
        fewer = said(web.post("/api/actions", json={**asked, "dry_run": False, "expect": 2}), 409)
        assert "3 rows" in fewer["error"]
        done = said(web.post("/api/actions", json={**asked, "dry_run": False, "expect": 3, "reason": "fixed"}))
        assert (done["changed"], done["skipped"], done["done"]) == (3, 0, True)
        (line,) = said(web.get("/api/audit"))["audit"]
        assert (line["actor"], line["via"], line["verb"], line["rows"]) == ("local", "http", "redrive", 3)
        assert line["reason"] == "fixed"
        assert said(web.get(f"/api/actions/{done['action']}")) == line
        assert web.get("/api/actions/999").status_code == 404
    assert {world.status(id) for id in rows} == {"pending"}


def test_an_action_longer_than_a_request_goes_on_without_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.web.actions.ANSWER_SECONDS", 0.0)
    for _ in range(5):
        world.enqueue()
    with served(world) as web:
        asked = {"verb": "cancel", "filter": "kind:send_receipt", "dry_run": False, "expect": 5}
        going = said(web.post("/api/actions", json=asked), 202)
        assert going["done"] is False
        eventually(lambda: said(web.get(f"/api/actions/{going['action']}"))["done_at"])
    assert world.count("dead") == 5


# -- queues, workers, ring, schedules, dead letters


def test_a_queue_is_paused_limited_and_resumed(world: World) -> None:
    world.enqueue(queue="mail/eu")
    with served(world) as web:
        name = "mail%2Feu"
        assert said(web.post(f"/api/queues/{name}/pause")) == {"queue": "mail/eu", "changed": True}
        assert said(web.post(f"/api/queues/{name}/pause"))["changed"] is False
        assert said(web.put(f"/api/queues/{name}/limits", json={"max_running": 2}))["max_running"] == 2
        (queue,) = said(web.get("/api/queues"))["queues"]
        assert (queue["queue"], queue["pending"], queue["paused"], queue["max_running"]) == ("mail/eu", 1, True, 2)
        assert said(web.put(f"/api/queues/{name}/limits", json={}))["max_running"] is None
        assert said(web.post(f"/api/queues/{name}/resume"))["changed"] is True
        assert "rate_per_second" in said(web.put(f"/api/queues/{name}/limits", json={"burst": 2}), 400)["error"]
        verbs = [line["verb"] for line in said(web.get("/api/audit"))["audit"]]
    assert verbs == ["resume", "limit", "limit", "pause", "pause"]
    assert world.run(queues.queues())[0].paused is False


def test_limits_are_put_all_at_once_and_a_queue_with_nothing_is_not_listed(world: World) -> None:
    with served(world) as web:
        for limits in ({"max_running": 2, "max_per_key": 1}, {"max_running": 3}):
            web.put("/api/queues/mial/limits", json=limits)
        (queue,) = said(web.get("/api/queues"))["queues"]
        assert (queue["max_running"], queue["max_per_key"]) == (3, None), "what is not named is removed"
        web.put("/api/queues/mial/limits", json={})
        assert said(web.get("/api/queues"))["queues"] == []


def test_below_the_cap_the_bounded_counts_of_queues_are_the_exact_ones(world: World) -> None:
    for queue in ("mail", "reports"):
        for n in range(12):
            world.enqueue(queue=queue, priority=n % 2, key=f"k{n % 3}", ordered=n % 4 == 0, delay_seconds=60 * (n % 2))
    for job in [*world.claim(n=4, lanes=[Lane("mail")]), *world.claim_ordered(n=2, queues=["mail"])][:4]:
        world.dead_letter(job.lease)
    exact = {(each.queue, each.status): each.rows for each in world.run(questions.depth())}
    counted = world.run(questions.queue_depths())
    assert {(each.queue, each.status): each.rows for each in counted if each.rows} == exact
    assert not any(each.more for each in counted)
    lags, exact_lags = world.run(questions.queue_lags()), world.run(questions.oldest_runnable())
    assert lags.keys() == exact_lags.keys() == {"mail", "reports"}
    assert all(abs(lags[queue] - exact_lags[queue]) < 5 for queue in lags)


def test_counts_of_queues_stop_at_the_cap_and_say_so(world: World) -> None:
    world.run(verbs.enqueue_many([NewRow("k", queue="mail") for _ in range(150)]))
    world.run(verbs.enqueue_many([NewRow("k", queue="ordered", key=f"k{n}", ordered=True) for n in range(50)]))
    counted = {(each.queue, each.status): each for each in world.run(questions.queue_depths(cap=100))}
    assert (counted["mail", "pending"].rows, counted["mail", "pending"].more) == (100, True)
    assert counted["ordered", "pending"].more
    assert sum(world.run(questions.ring_depth(["mail"])).values()) == 150
    assert sum(world.run(questions.ring_depth(["ordered", "mail"])).values()) == 200
    assert max(world.run(questions.ring_depth(["mail"], cap=1)).values()) == 1


def test_a_worker_is_shown_with_its_buckets_and_drains_when_asked(world: World) -> None:
    inbox = Inbox()

    @inbox.handler("nothing")
    async def nothing(job: Job) -> None: ...

    with served(world) as web, working(world, inbox) as hired:
        (worker,) = said(web.get("/api/workers"))["workers"]
        assert (worker["id"], worker["status"], worker["buckets"]) == (hired.worker.id, "alive", 1024)
        assert worker["queues"] == ["default"]
        ring = said(web.get("/api/ring"))
        assert (ring["workers"], set(ring["buckets"]), len(ring["depth"])) == ([hired.worker.id], {0}, 64)
        assert ring["history"][0]["what"] == "joined"
        assert web.get("/api/ring?queues=nobody").status_code == 404
        assert said(web.post(f"/api/workers/{hired.worker.id}/drain"))["changed"] is True
        assert hired.gone() == 0
        assert web.post("/api/workers/nobody/drain").status_code == 404


def test_a_dead_worker_is_shown_with_the_rows_it_left_behind(world: World) -> None:
    world.run(fleet.register("W1"))
    world.enqueue()
    world.enqueue(key="order:1", ordered=True)
    world.enqueue("waits", delay_seconds=60)
    assert len([*world.claim("W1", 1), *world.claim_ordered("W1", 1)]) == 2
    world.sql("UPDATE workers SET status = 'dead'")
    with served(world) as web:
        (worker,) = said(web.get("/api/workers"))["workers"]
        assert (worker["status"], worker["held"], worker["buckets"]) == ("dead", 2, 0)


def test_a_schedule_is_told_in_words_paused_resumed_and_removed(world: World) -> None:
    world.run(schedules.plan(schedules.Schedule("nightly", "30 2 * * *", "report", zone="Europe/Berlin")))
    with served(world) as web:
        (planned,) = said(web.get("/api/schedules"))["schedules"]
        assert len(planned["coming"]) == 5
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT02:30:00\+0[12]:00", at) for at in planned["coming"])
        assert said(web.post("/api/schedules/nightly/run"))["changed"] is True
        assert web.post("/api/schedules/nobody/run").status_code == 404
        assert world.sql("SELECT kind, status FROM live") == [("report", "pending")]
        assert (planned["words"], planned["time_zone"]) == ("At 02:30 every day", "Europe/Berlin")
        assert said(web.post("/api/schedules/nightly/pause"))["changed"] is True
        assert said(web.get("/api/schedules"))["schedules"][0]["paused"] is True
        assert said(web.post("/api/schedules/nightly/resume"))["changed"] is True
        assert said(web.delete("/api/schedules/nightly"))["changed"] is True
        assert web.delete("/api/schedules/nightly").status_code == 404


def test_what_ended_badly_is_grouped_and_each_group_names_the_filter_that_finds_it(world: World) -> None:
    for n in range(3):
        world.enqueue()
        world.dead_letter(world.claim_one().lease, f"OSError: no route to 10.0.0.{n}")
    with served(world) as web:
        (group,) = said(web.get("/api/dead"))["groups"]
        assert (group["n"], group["kind"], group["status"]) == (3, "send_receipt", "dead_letter")
        assert said(web.get("/api/rows/count", params={"filter": group["filter"]}))["n"] == 3
        assert UUID(group["sample"])


def test_a_key_that_waits_for_an_operator_is_shown_and_freed(world: World) -> None:
    world.enqueue(key="order:1", ordered=True, hold=True)
    world.enqueue(key="order:1", ordered=True)
    (job,) = world.claim_ordered()
    world.fail(job.lease)
    with served(world) as web:
        (blocked,) = said(web.get("/api/blocked"))["keys"]
        assert (blocked["key"], blocked["reason"], blocked["waiting"]) == ("order:1", "waits_for_operator", 1)
        asked = {"queue": "default", "key": "order:1"}
        assert said(web.post("/api/blocked/free", json=asked))["changed"] is True
        assert web.post("/api/blocked/free", json=asked).status_code == 404
        assert said(web.get("/api/blocked"))["keys"] == []


def test_the_overview_has_the_numbers_the_charts_and_the_fence(world: World) -> None:
    world.enqueue()
    world.enqueue(delay_seconds=600)
    world.enqueue("held")
    world.run(fleet.register("W1"))
    with served(world) as web:
        seen = said(web.get("/api/overview?seconds=600"))
        assert seen["runnable"]["n"] == 2
        assert seen["scheduled"]["n"] == 1
        assert seen["oldest_runnable_seconds"] >= 0
        assert seen["workers"] == {"alive": 1, "draining": 0, "dead": 0}
        assert seen["fence"]["seconds"] == 600
        assert len(seen["series"]) == 60
        assert "tenure_rows{" in web.get("/metrics").text


def test_a_refused_write_is_shown_with_the_key_of_its_row(world: World) -> None:
    keyed, plain = world.enqueue(key="order:1"), world.enqueue()
    for id in (keyed, plain):
        refused = {"row_id": str(id), "age_seconds": 1.0, "worker": "W1", "verb": "complete", "kind": "send_receipt"}
        world.run(history.refuse([{**refused, "stale_token": 1, "current_token": 2, "reason": "stale"}]))
    with served(world) as web:
        shown = {each["row"]: each["key"] for each in said(web.get("/api/overview"))["recent_refusals"]}
    assert shown == {str(keyed): "order:1", str(plain): None}


# -- what is said with an act

ACTS = [each for each in routes(drills=False) if each.changes and each.body in (None, Why) and each.verb != "reveal"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("notjson", "body is not JSON"),
        ("[]", "body: expected `object`, got `array`"),
        ('{"reasn": "x"', "body"),
        ('{"reasn": "x"}', "body: there is no field 'reasn'"),
    ],
)
def test_a_broken_body_of_an_act_is_refused_and_nothing_is_done(body: str, says: str, world: World) -> None:
    with served(world) as web:
        for act in ACTS:
            path = act.path.replace("{name:text}", "q").replace("{id}", str(UUID(int=7)))
            answer = web.request(act.method, path, content=body, headers={"content-type": "application/json"})
            assert (answer.status_code, answer.json()["error"][: len(says)]) == (400, says), act.path
            assert web.request(act.method, path, content=body).status_code == 415, act.path
    assert world.count("audit") == 0


def test_an_act_takes_a_reason_for_the_audit_or_no_body(world: World) -> None:
    with served(world) as web:
        for given in (b'{"reason": "the mail server is away"}', b"{}", b""):
            kind = {"content-type": "application/json"} if given else {}
            assert web.post("/api/queues/mail/pause", content=given, headers=kind).status_code == 200
        assert web.post("/api/queues/mail/pause", json={"reason": "x" * 501}).status_code == 400
    assert world.sql("SELECT reason FROM audit ORDER BY id") == [("the mail server is away",), ("",), ("",)]
